package mem0_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves EDGE-13, CARD-1: counts that include others' memories are removed, and a list
// counts its shown elements.
func TestTotalsOfOthersAreLeftOut(t *testing.T) {
	a := adapter(t)
	const mine, theirs = `{"id":1,"name":"zoe","type":"user","total_memories":1}`, `{"id":2,"name":"ann","type":"user","total_memories":7}`
	rt := memproxy.Route{ID: "mem0.v1.entities", Kind: memproxy.Recall}
	reply := memproxy.Reply{Status: 200, Body: []byte(`{"count":9,"next":null,"results":[` + mine + `,` + theirs + `],"total_users":8,"total_agents":1}`)}
	for _, tc := range []struct {
		mixed, drop bool
		want        string
	}{
		{false, false, string(reply.Body)},
		{true, true, `{"count":1,"next":null,"results":[` + mine + `]}`},
		{true, false, `{"count":2,"next":null,"results":[` + mine + `,` + theirs + `]}`},
	} {
		rd, err := a.Read(rt, memproxy.Request{}, reply)
		if err != nil || len(rd.Memories) != 2 {
			t.Fatalf("%+v, %v", rd, err)
		}
		rd.Mixed, rd.Memories[1].Drop = tc.mixed, tc.drop
		got, err := a.Rewrite(rt, memproxy.Request{}, reply, rd)
		if err != nil || string(got) != tc.want {
			t.Errorf("%+v: %s, %v", tc, got, err)
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
	reply := memproxy.Reply{Status: 200, Body: []byte(`{"results":[` + mine + `,` + theirs + `],"relations":` + graph + `}`)}
	for _, tc := range []struct {
		name   string
		change func(*memproxy.Reading)
		want   string
	}{
		{"nothing is left out", func(*memproxy.Reading) {}, string(reply.Body)},
		{"another's", func(rd *memproxy.Reading) { rd.Memories[1].Drop = true }, `{"results":[` + mine + `],"relations":{}}`},
		{"the text before", func(rd *memproxy.Reading) { rd.Memories[1].Bare = true }, `{"results":[` + mine + `,{"id":"b","memory":"canary","event":"UPDATE"}],"relations":` + graph + `}`},
		{"relations", func(rd *memproxy.Reading) { rd.Unrelated = true }, `{"results":[` + mine + `,` + theirs + `],"relations":{}}`},
	} {
		rd, err := a.Read(rt, memproxy.Request{}, reply)
		if err != nil || len(rd.Memories) != 2 || rd.Memories[1].Before != "canary" || !slices.Equal(rd.Relations, []string{"x likes tea"}) {
			t.Fatalf("%+v, %v", rd, err)
		}
		tc.change(rd)
		got, err := a.Rewrite(rt, memproxy.Request{}, reply, rd)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %s, %v", tc.name, got, err)
		}
	}
}
