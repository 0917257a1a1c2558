package letta_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const (
	readAgent  = "agent-11111111-1111-4111-8111-111111111111"
	readBlock  = "block-22222222-2222-4222-8222-222222222222"
	otherBlock = "block-33333333-3333-4333-8333-333333333333"
	callText   = `"memproxy_provenance":{"actor":"agent:dev","confidence":0.7,"attestation":"unknown","state":"validated","contested":false}`
)

// rewritten returns an answer with a change applied to each of its memories.
func rewritten(t *testing.T, method, path, answer string, change func(*memproxy.Memory)) string {
	t.Helper()
	a := adapter(t)
	rt, req := route(t, method, path)
	reply := memproxy.Reply{Status: 200, Body: []byte(answer)}
	rd := must.Get(a.Read(rt, req, reply))(t)
	for i := range rd.Memories {
		change(&rd.Memories[i])
	}
	out := must.Get(a.Rewrite(rt, req, reply, rd))(t)
	return string(out)
}

// Proves MFW-8: a memory's provenance is in its metadata at every place; its neighbour
// is unchanged.
func TestProvenanceIsShown(t *testing.T) {
	p := &memproxy.Provenance{Actor: "agent:dev", Confidence: 700, Attestation: memproxy.AttestationUnknown, State: memproxy.StateValidated}
	other := `{"id":"` + otherBlock + `","value":"y"}`
	block := func(more string) string { return `{"id":"` + readBlock + `","value":"x"` + more + `}` }
	with := `,"metadata":{` + callText + `}`
	for _, tc := range []struct{ method, path, answer, want string }{
		{"GET", "/v1/blocks/" + readBlock, block(`,"metadata":{"a":1}`), block(`,"metadata":{"a":1,` + callText + `}`)},
		{"GET", "/v1/blocks/", `[` + block(`,"metadata":null`) + `,` + other + `]`, `[` + block(with) + `,` + other + `]`},
		{
			"GET", "/v1/agents/" + readAgent,
			`{"id":"` + readAgent + `","blocks":[` + block("") + `],"memory":{"blocks":[` + other + `,` + block("") + `]}}`,
			`{"id":"` + readAgent + `","blocks":[` + block(with) + `],"memory":{"blocks":[` + other + `,` + block(with) + `]}}`,
		},
		{
			"POST", "/v1/passages/search",
			`[{"passage":{"id":"` + readBlock + `","text":"x"},"score":1}]`, `[{"passage":{"id":"` + readBlock + `","text":"x"` + with + `},"score":1}]`,
		},
	} {
		expect.Equal(t, rewritten(t, tc.method, tc.path, tc.answer, func(m *memproxy.Memory) {
			if m.ID == readBlock {
				m.ShowProvenance = p
			}
		}), tc.want, tc.path)
	}
}

// Proves DOL-5: a partly shown text is replaced at every place, also in lists of agents
// and in results of a search.
func TestShownInPart(t *testing.T) {
	const shown = "[PATTERN_001]"
	list := `[{"id":"` + readBlock + `","value":"bad"},{"id":"` + otherBlock + `","value":"good"}]`
	for path, answer := range map[string]string{
		"GET /v1/agents/":          `[{"id":"` + readAgent + `","blocks":` + list + `,"memory":{"blocks":` + list + `}}]`,
		"POST /v1/passages/search": `[{"passage":{"id":"` + readBlock + `","text":"bad"}},{"passage":{"id":"` + otherBlock + `","text":"good"}}]`,
	} {
		method, path, _ := strings.Cut(path, " ")
		got := rewritten(t, method, path, answer, func(m *memproxy.Memory) {
			if text := shown; m.ID == readBlock {
				m.Show = &text
			}
		})
		expect.Equal(t, got, strings.ReplaceAll(answer, "bad", shown), path)
	}
}

// Proves MFW-8: lists are continued after their last element, and searches are repeated
// with a higher limit. Backward lists, unreadable limits and complete results are not
// refilled.
func TestRefills(t *testing.T) {
	a := adapter(t)
	list := `[{"id":"` + readBlock + `"},{"id":"` + otherBlock + `"}]`
	search := `{"results":[{"id":"passage-22222222-2222-4222-8222-222222222222","content":"x"},{"id":"passage-33333333-3333-4333-8333-333333333333","content":"y"}],"count":2}`
	for _, tc := range []struct{ method, path, query, body, answer, asks string }{
		{"GET", "/v1/blocks/", "label=a&limit=2", "", list, "label=a&after=" + otherBlock + "&limit=10"},
		{"GET", "/v1/blocks/", "after=x&limit=2", "", list, "after=" + otherBlock + "&limit=10"},
		{"GET", "/v1/blocks/", "before=x&limit=2", "", list, ""},
		{"GET", "/v1/blocks/", "limit=many", "", list, ""},
		{"GET", "/v1/blocks/", "limit=5", "", list, ""}, // a short page is the last
		{"GET", "/v1/blocks/", "", "", list, ""},
		{"GET", "/v1/agents/" + readAgent + "/archival-memory/search", "query=x&top_k=2", "", search, "query=x&top_k=8"},
		{"POST", "/v1/passages/search", "", `{"query":"x","limit":2}`, `[{"passage":{"id":"p1"}},{"passage":{"id":"p2"}}]`, `{"query":"x","limit":8}`},
		{"POST", "/v1/passages/search", "", `{"limit":"2"}`, `[{"passage":{"id":"p1"}},{"passage":{"id":"p2"}}]`, ""},
	} {
		rt, req := route(t, tc.method, tc.path+"?"+tc.query)
		reply := memproxy.Reply{Status: 200, Body: []byte(tc.answer)}
		rd := must.Get(a.Read(rt, req, reply))(t)
		if a.Refill(rt, req, []byte(tc.body), reply, rd) != nil {
			t.Errorf("%s?%s: nothing is missing, and more is asked for", tc.path, tc.query)
		}
		rd.Memories[0].Drop = true
		fill := a.Refill(rt, req, []byte(tc.body), reply, rd)
		if fill == nil {
			expect.Equal(t, tc.asks, "", tc.path, "?", tc.query, "is not filled up")
			continue
		}
		q, more := fill.Next()
		if got := q.Request.Query + string(q.Body); !more || got != tc.asks {
			t.Errorf("%s?%s asks for %s, want %s", tc.path, tc.query, got, tc.asks)
		}
	}
}

// A page of messages is refilled only if it was emptied: elements of one message share
// its id, and a page must not be cut between them.
func TestMessagesAreFilledUpWhenEmptied(t *testing.T) {
	a := adapter(t)
	rt, req := route(t, "GET", "/v1/agents/"+readAgent+"/messages?limit=2")
	var parts []string
	for i := range 3 {
		parts = append(parts, fmt.Sprintf(`{"id":"message-%d","message_type":"system_message","content":"x"}`, i/2))
	}
	reply := memproxy.Reply{Status: 200, Body: []byte("[" + strings.Join(parts, ",") + "]")}
	rd := must.Get(a.Read(rt, req, reply))(t)
	for i := range rd.Memories {
		if !rd.Memories[i].Compiled {
			t.Error("a prompt is read as something that was said")
		}
	}
	rd.Memories[0].Drop = true
	if a.Refill(rt, req, nil, reply, rd) != nil {
		t.Error("a page of which something is left is filled up")
	}
	rd.Memories[1].Drop, rd.Memories[2].Drop = true, true
	if a.Refill(rt, req, nil, reply, rd) == nil {
		t.Error("an emptied page is not filled up")
	}
}

// Proves EDGE-3: a block in an agent's lists is dropped whatever names it: an id, another
// member, or nothing.
func TestListedBlocksAreDroppedWhateverNamesThem(t *testing.T) {
	for _, id := range []string{`"id":"` + readBlock + `"`, `"id":null,"message_id":"message-1"`, `"id":3,"message_id":"message-1"`, `"id":7`, `"label":"a"`} {
		answer := `{"id":"` + readAgent + `","memory":{"blocks":[{` + id + `,"value":"hidden"}]}}`
		expect.Text(t, rewritten(t, "GET", "/v1/agents/"+readAgent, answer, func(m *memproxy.Memory) { m.Drop = true }), id).Lacks("hidden")
	}
}
