package mem0_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-13, CARD-1: counts that include others' memories are removed, and a list
// counts its shown elements.
func TestTotalsOfOthersAreLeftOut(t *testing.T) {
	a := adapter(t)
	const mine, theirs = `{"id":1,"name":"zoe","type":"user","total_memories":1}`, `{"id":2,"name":"ann","type":"user","total_memories":7}`
	rt := memproxy.Route{ID: "mem0.v1.entities", Kind: memproxy.Recall}
	const answer = `{"count":9,"next":null,"results":[` + mine + `,` + theirs + `],"total_users":8,"total_agents":1}`
	for _, tc := range []struct {
		mixed, drop bool
		want        string
	}{
		{false, false, answer},
		{true, true, `{"count":1,"next":null,"results":[` + mine + `]}`},
		{true, false, `{"count":2,"next":null,"results":[` + mine + `,` + theirs + `]}`},
	} {
		got := rewritten(t, a, rt, memproxy.Request{}, answer, func(rd *memproxy.Reading) { rd.CountsOthers, rd.Memories[1].Drop = tc.mixed, tc.drop })
		if got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

// Proves EDGE-13: to a caller that may see a part of what an owner has, the backend's count
// of it is not shown, in a list or alone.
func TestCountsOfAnOwnerAreForUnlimitedCallers(t *testing.T) {
	a := adapter(t)
	const counted, bare = `{"id":1,"name":"ann","type":"user","total_memories":7}`, `{"id":1,"name":"ann","type":"user"}`
	for _, tc := range []struct{ route, answer, limited string }{
		{"mem0.v1.entities", `{"count":1,"results":[` + counted + `],"total_users":8}`, `{"count":1,"results":[` + bare + `]}`},
		{"mem0.v2.entity", `[` + counted + `]`, `[` + bare + `]`},
	} {
		for _, limited := range []bool{false, true} {
			want := tc.answer
			if limited {
				want = tc.limited
			}
			rt := memproxy.Route{ID: tc.route, Kind: memproxy.Recall}
			expect.Equal(t, rewritten(t, a, rt, memproxy.Request{}, tc.answer, func(rd *memproxy.Reading) { rd.Limited = limited }), want, tc.route, "limited", limited)
		}
	}
}

// Proves EDGE-13, CARD-2: memories of others, previous texts and relations can be
// removed from the answer to a write, and the rest is unchanged.
func TestAnswersOfWritesAreRewritten(t *testing.T) {
	a := adapter(t)
	const mine, theirs = `{"id":"a","memory":"m","event":"ADD"}`, `{"id":"b","memory":"canary","event":"UPDATE","previous_memory":"canary"}`
	const graph = `{"added_entities":[[{"source":"x","relationship":"likes","target":"tea"}]],"deleted_entities":[]}`
	rt := memproxy.Route{ID: "mem0.server.add", Kind: memproxy.Learn}
	const answer = `{"results":[` + mine + `,` + theirs + `],"relations":` + graph + `}`
	for _, tc := range []struct {
		name   string
		change func(*memproxy.Reading)
		want   string
	}{
		{"nothing is left out", func(*memproxy.Reading) {}, answer},
		{"another's", func(rd *memproxy.Reading) { rd.Memories[1].Drop = true }, `{"results":[` + mine + `],"relations":{}}`},
		{"the text before", func(rd *memproxy.Reading) { rd.Memories[1].OmitBefore = true }, `{"results":[` + mine + `,{"id":"b","memory":"canary","event":"UPDATE"}],"relations":` + graph + `}`},
		{"relations", func(rd *memproxy.Reading) { rd.Unrelated = true }, `{"results":[` + mine + `,` + theirs + `],"relations":{}}`},
	} {
		expect.Equal(t, rewritten(t, a, rt, memproxy.Request{}, answer, func(rd *memproxy.Reading) {
			if rd.Memories[1].Before != "canary" || !slices.Equal(rd.Relations, []string{"x likes tea"}) {
				t.Errorf("%+v", rd)
			}
			tc.change(rd)
		}), tc.want, tc.name)
	}
}
