package mem0_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/metadata"
	"github.com/memproxy/memproxy/internal/must"
)

// rewritten is an answer after a change of its reading.
func rewritten(t testing.TB, a *mem0.Adapter, rt memproxy.Route, req memproxy.Request, answer string, change func(*memproxy.Reading)) string {
	t.Helper()
	reply := memproxy.Reply{Status: 200, Body: []byte(answer)}
	rd := must.Get(a.Read(rt, req, reply))(t)
	change(rd)
	return string(must.Get(a.Rewrite(rt, req, reply, rd))(t))
}

// Proves MFW-8: requested provenance is in a memory's metadata, whether it has some,
// has none, or was requested without; a forged copy is replaced. Everything else is
// unchanged.
func TestProvenanceIsShown(t *testing.T) {
	a := adapter(t)
	const told = `"memproxy_provenance":{"actor":"agent:dev","trust":"authenticated","confidence":0.7,"source":"unstated",` +
		`"attestation":"self-reported","state":"validated","contested":false,"decision":"d1","written":"2026-03-14T12:00:00Z"}`
	p := &memproxy.Provenance{
		Actor: "agent:dev", Trust: memproxy.TrustAuthenticated, Confidence: 700, Source: memproxy.SourceUnstated,
		Attestation: memproxy.SelfReported, State: memproxy.StateValidated, Decision: "d1", Written: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC),
	}
	for _, tc := range []struct{ target, answer, want string }{
		{"GET /v1/memories/m1/", `{"id":"m1","memory":"x","metadata":{"a":1}}`, `{"id":"m1","memory":"x","metadata":{"a":1,` + told + `}}`},
		{"GET /v1/memories/m1/", `{"id":"m1","memory":"x","metadata":null}`, `{"id":"m1","memory":"x","metadata":{` + told + `}}`},
		{"GET /memories/m1", `{"id":"m1","memory":"x"}`, `{"id":"m1","memory":"x","metadata":{` + told + `}}`},
		{"POST /v3/memories/", `{"results":[{"id":"m1","metadata":{"memproxy_provenance":{"trust":"system"}}}]}`, `{"results":[{"id":"m1","metadata":{` + told + `}}]}`},
		{"GET /v1/memories/?fields=id", `[{"id":"m1","metadata":{"a":1}}]`, `[{"id":"m1","metadata":{` + told + `}}]`},
		{"GET /v1/memories/m1/history/", `[{"metadata":null,"old_memory":"canary","memory_id":"m1"}]`, `[{"memory_id":"m1","metadata":{` + told + `}}]`},
	} {
		rt, req := routed(t, a, tc.target)
		got := rewritten(t, a, rt, req, tc.answer, func(rd *memproxy.Reading) { rd.Memories[0].ShowProvenance, rd.Memories[0].OmitBefore = p, true })
		if got != tc.want {
			t.Errorf("%s\n got: %s\nwant: %s", tc.answer, got, tc.want)
		}
	}
}

// Proves CARD-1: a change that is answered with nothing is answered so, on a backend of
// several tenants too.
func TestEmptyAnswersOfChanges(t *testing.T) {
	a := adapter(t)
	for _, target := range []string{"PUT /v1/memories/m1/", "DELETE /memories/m1"} {
		rt, req := routed(t, a, target)
		expect.Equal(t, rewritten(t, a, rt, req, "", func(rd *memproxy.Reading) { rd.CountsOthers, rd.Unrelated = true, true }), "", target)
	}
}

// Proves MFW-8: a result of a write that is not shown is removed from the write's
// receipt as well, and no other member repeats a text that is shown in part. The
// receipt of another write is unchanged.
func TestHiddenResultsLeaveTheReceipt(t *testing.T) {
	a := adapter(t)
	rewrite := func(path, answer string, change func(*memproxy.Memory)) string {
		t.Helper()
		rt, req := routed(t, a, "GET "+path)
		return rewritten(t, a, rt, req, answer, func(rd *memproxy.Reading) {
			for i := range rd.Memories {
				if rd.Memories[i].ID == "m1" {
					change(&rd.Memories[i])
				}
			}
		})
	}
	drop := func(m *memproxy.Memory) { m.Drop = true }
	const event = `{"id":"e1","status":"SUCCEEDED","payload":{"messages":["bad"]},"results":[{"id":"m1","data":{"memory":"bad"}},{"id":"m2","data":{"memory":"good"}}]}`
	const other = `{"id":"e2","payload":{"messages":["fine"]},"results":[{"id":"m3"}]}`
	expect.Text(t, rewrite("/v1/event/e1/", event, drop), "the receipt tells").Lacks("bad").Has("good")
	got := rewrite("/v1/events/", `{"count":2,"results":[`+event+`,`+other+`]}`, drop)
	expect.Text(t, got, "the receipts tell").Lacks("bad").Has("good", other, `"count":2`)
	got = rewrite("/v1/memories/user/ann/", `{"results":[{"id":"m1","memory":"bad","input":[{"content":"bad"}]},{"id":"m2","memory":"x","input":[1]}]}`, func(m *memproxy.Memory) {
		shown := "[PATTERN_001]"
		m.Show = &shown
	})
	expect.Equal(t, got, `{"results":[{"id":"m1","memory":"[PATTERN_001]","input":[]},{"id":"m2","memory":"x","input":[1]}]}`)
}

// Proves MFW-8, CARD-1: a link to the next page repeats the reader's parameters for memproxy, and
// has the path that clients of memproxy send, without the upstream's prefix.
func TestLinksCarryWishes(t *testing.T) {
	a := adapter(t)
	for link, want := range map[string]string{
		"https://up/v3/memories/?page=2": `"http://p/v3/memories/?page=2&memproxy_min_trust=0.7"`,
		"https://up/v3/memories/":        `"http://p/v3/memories/?memproxy_min_trust=0.7"`,
		"https://up/%zz":                 `null`,

		"https://up/base/mem0/v3/memories/?page=2": `"http://p/v3/memories/?page=2&memproxy_min_trust=0.7"`,
		"https://up/base/mem0/v2/other/?page=2":    `"http://p/base/mem0/v2/other/?page=2&memproxy_min_trust=0.7"`,
	} {
		rt, req := routed(t, a, "POST /v3/memories/")
		req.Base, req.ProxyQuery = "http://p", "memproxy_min_trust=0.7"
		if got := rewritten(t, a, rt, req, `{"next":"`+link+`","results":[]}`, func(*memproxy.Reading) {}); got != `{"next":`+want+`,"results":[]}` {
			t.Errorf("%s leads to %s, want %s", link, got, want)
		}
	}
}

// A body that asks for a page is parsed once, whatever it leaves to the defaults.
func TestARecountedPagesBodyIsParsedOnce(t *testing.T) {
	a := adapter(t)
	rt, req := routed(t, a, "POST /v2/memories/")
	body := []byte(`{"filters":{"OR":[{"user_id":"ann"}` + strings.Repeat(`,{"user_id":"ann"}`, 1000) + `]}}`)
	reply := memproxy.Reply{Status: 200, Body: []byte(`{"count":800,"next":null,"results":[{"id":"m1"}]}`)}
	rd := &memproxy.Reading{Memories: []memproxy.Memory{{ID: "m1", Pointer: "/results/0", Drop: true}}}
	once := testing.AllocsPerRun(10, func() { must.Get(jsondoc.Parse(body, 0))(t) })
	filled := testing.AllocsPerRun(10, func() {
		if a.Refill(rt, req, body, reply, rd) == nil {
			t.Fatal("the page is not recounted")
		}
	})
	if filled > 1.5*once {
		t.Errorf("%.0f allocations, of %.0f for the body", filled, once)
	}
}

// Proves MFW-8: a page stays short if its count was left out as a member that no row claims.
func TestPagesWithoutACountStayShort(t *testing.T) {
	a := adapter(t)
	rt, req := routed(t, a, "GET /v1/event/e1/")
	req.Query = "page_size=1"
	reply := memproxy.Reply{Status: 200, Body: []byte(`{"id":"e1","count":2,"results":[{"id":"m1"},{"id":"m2"}]}`)}
	fill := a.Refill(rt, req, nil, reply, &memproxy.Reading{Memories: []memproxy.Memory{{ID: "m1", Pointer: "/results/0", Drop: true}, {ID: "m2", Pointer: "/results/1"}}})
	must.Do(t, fill.Select(reply, &memproxy.Reading{}))
	pruned := must.Get(a.Prune(rt, reply))(t)
	expect.Error(t, expect.Err(fill.Answer(memproxy.Reply{Status: 200, Body: pruned.Body}, nil)), "it is filled up")
}

// The stamp of an event covers the metadata of its results, also of those without a text.
func TestResultsAreCoveredByTheEventsStamp(t *testing.T) {
	a := adapter(t)
	rt, req := routed(t, a, "GET /v1/event/e1/")
	hashes := metadata.Hashes("d", []memproxy.Member{{Name: "about", Value: []byte(`"tea"`)}}, func(string) bool { return false })
	for about, want := range map[string][3]bool{"tea": {false, false, false}, "ale": {true, true, true}} {
		body := fmt.Sprintf(`{"id":"e1","payload":{"metadata":{"about":%q,"memproxy_id":"d","memproxy_sig":"s","memproxy_meta":%q}},"results":[{"id":"m1","memory":"x"},{"id":"m2"}]}`, about, hashes)
		rd := must.Get(a.Read(rt, req, memproxy.Reply{Status: 200, Body: []byte(body)}))(t)
		must.Len(t, rd.Memories, 3)
		for i, m := range rd.Memories {
			expect.Equal(t, m.Altered, want[i], about, m.ID)
		}
	}
}
