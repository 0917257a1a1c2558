package letta_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-13, DOL-5: all objects in the answer to a change are read, and a dropped
// one is removed everywhere in it.
func TestAnswersToChangesAreTakenApart(t *testing.T) {
	a := adapter(t)
	const mine, theirs = `{"id":"block-1","label":"human","value":"likes tea"}`, `{"id":"block-2","label":"persona","value":"canary"}`
	const agent = `{"id":"agent-1","name":"a","memory":{"blocks":[` + mine + `,` + theirs + `]},"blocks":[` + theirs + `,` + mine + `]}`
	for _, tc := range []struct {
		route string
		kind  memproxy.Kind
		body  string
		found int
	}{
		{"letta.attach_core_memory_block", memproxy.Attach, agent, 3},
		{"letta.attach_tool_to_agent", memproxy.Attach, agent, 3},
		{"letta.modify_agent", memproxy.Correct, agent, 3},
		{"letta.modify_block", memproxy.Correct, theirs, 1},
		{"letta.modify_passage", memproxy.Correct, `[{"id":"passage-1","text":"canary"}]`, 1},
		{"letta.detach_tool_from_agent", memproxy.Attach, `null`, 0},
		{"letta.close_all_files_for_agent", memproxy.Attach, `["a file"]`, 0},
		{"letta.delete_block", memproxy.Forget, ``, 0},
	} {
		rt, reply := memproxy.Route{ID: tc.route, Kind: tc.kind}, memproxy.Reply{Status: 200, Body: []byte(tc.body)}
		rd, err := a.Read(rt, memproxy.Request{}, reply)
		must.Do(t, err, tc.route)
		expect.Len(t, rd.Memories, tc.found, tc.route)
		for i := range rd.Memories {
			if m := &rd.Memories[i]; m.Text == "canary" && m.Pointer == "" {
				blank := ""
				m.Show = &blank
			} else if m.Text == "canary" {
				m.Drop = true
			}
		}
		body, err := a.Rewrite(rt, memproxy.Request{}, reply, rd)
		must.Do(t, err, tc.route)
		expect.Text(t, string(body), tc.route).Lacks("canary").Times(strings.Count(tc.body, "likes tea"), "likes tea")
	}
	_, err := a.Read(memproxy.Route{ID: "letta.modify_block", Kind: memproxy.Correct}, memproxy.Request{}, memproxy.Reply{Body: []byte(`{`)})
	expect.Error(t, err, "an answer that cannot be read is disclosed")
}
