package letta

import (
	"fmt"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
)

func tcall(tool, args string) memproxy.ToolCall {
	return memproxy.ToolCall{Tool: tool, Arguments: []byte(args)}
}

func blockOf(id, label, text string) memproxy.Memory {
	return memproxy.Memory{ID: "block-" + id, Field: label, Text: text}
}

// Proves SYN-5: what calls of an agent made of its memory is told by call, with
// the whole text before and after.
func TestEdits(t *testing.T) {
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	human := func(text string) []memproxy.Memory { return []memproxy.Memory{blockOf("1", "human", text)} }
	passages := func(texts ...string) (out []memproxy.Memory) {
		for i := range texts { // the newest first
			out = append(out, memproxy.Memory{ID: "passage-" + fmt.Sprint(len(texts)-i), Text: texts[i]})
		}
		return out
	}
	for name, tc := range map[string]struct {
		before, after []memproxy.Memory
		calls         []memproxy.ToolCall
		want          []string
	}{
		"one edit": {human("Ann"), human("Ann\nlikes tea"), []memproxy.ToolCall{tcall("memory_insert", `{"label":"human","new_string":"likes tea"}`)},
			[]string{`0 UPDATE block-1 "Ann" "Ann\nlikes tea"`}},
		"an edit that failed": {human("Ann"), human("Ann"), []memproxy.ToolCall{tcall("memory_replace", `{"label":"human","old_string":"x","new_string":"y"}`)}, nil},
		"two edits of one block, each worked out": {human("Ann"), human("Bob\nlikes tea"), []memproxy.ToolCall{
			tcall("memory_insert", `{"label":"human","new_string":"likes tea"}`), tcall("memory_replace", `{"label":"human","old_string":"Ann","new_string":"Bob"}`)},
			[]string{`0 UPDATE block-1 "Ann" "Ann\nlikes tea"`, `1 UPDATE block-1 "Ann\nlikes tea" "Bob\nlikes tea"`}},
		"three, of which one is refused by the server": {human("Ann"), human("Ann\nx\ny"), []memproxy.ToolCall{
			tcall("core_memory_append", `{"label":"human","content":"x"}`), tcall("memory_replace", `{"label":"human","old_string":"nobody","new_string":"Bob"}`),
			tcall("core_memory_append", `{"label":"human","content":"y"}`)},
			[]string{`0 UPDATE block-1 "Ann" "Ann\nx"`, `2 UPDATE block-1 "Ann\nx" "Ann\nx\ny"`}},
		"two that come to something else: somebody wrote in between": {human("Ann"), human("Eve\nx\ny"), []memproxy.ToolCall{
			tcall("core_memory_append", `{"label":"human","content":"x"}`), tcall("core_memory_append", `{"label":"human","content":"y"}`)},
			[]string{`1 UPDATE block-1 "Ann" "Eve\nx\ny"`}},
		"a patch cannot be worked out, and is seen": {human("Ann"), human("Ann B."), []memproxy.ToolCall{tcall("memory_apply_patch", `{"label":"human","patch":"-Ann\n+Ann B."}`)},
			[]string{`0 UPDATE block-1 "Ann" "Ann B."`}},
		"a new block, by its path": {nil, []memproxy.Memory{blockOf("2", "work_notes", "x")}, []memproxy.ToolCall{tcall("memory", `{"command":"create","path":"/memories/work/notes","file_text":"x"}`)},
			[]string{`0 ADD block-2 "" "x"`}},
		"a block that is let go is no change of its text": {human("Ann"), nil, []memproxy.ToolCall{tcall("memory", `{"command":"delete","path":"/memories/human"}`)}, nil},
		"passages go to who said them": {passages("old"), passages("two", "one", "old"), []memproxy.ToolCall{
			tcall("archival_memory_insert", `{"content":"one"}`), tcall("archival_memory_insert", `{"content":"two"}`)},
			[]string{`0 ADD passage-2 "" "one"`, `1 ADD passage-3 "" "two"`}},
		"a passage that only came into view is not new": {passages("b", "a")[:1], append(passages("b", "a")[:1], memproxy.Memory{ID: "passage-0", Text: "older"}),
			[]memproxy.ToolCall{tcall("archival_memory_insert", `{"content":"c"}`)}, nil},
		"a block under another label, with a description": {
			[]memproxy.Memory{{ID: "block-1", Field: "human", Text: "Ann", Members: []byte("old")}}, []memproxy.Memory{{ID: "block-1", Field: "notes", Text: "Bob", Members: []byte("new")}},
			[]memproxy.ToolCall{tcall("memory_insert", `{"label":"human","new_string":"x"}`), tcall("memory", `{"command":"rename","old_path":"/memories/human","new_path":"/memories/notes"}`),
				tcall("memory_insert", `{"label":"persona","new_string":"x"}`)},
			[]string{`1 NONE block-1 "" "Bob"`, `1 UPDATE block-1 "Ann" "Bob"`}},
		"arguments that nobody can read": {human("Ann"), human("Bob"), []memproxy.ToolCall{tcall("memory_rethink", `{"label`)}, []string{`0 UPDATE block-1 "Ann" "Bob"`}},
	} {
		var got []string
		for i, made := range a.Edits(tc.before, tc.after, tc.calls) {
			for _, m := range made {
				got = append(got, fmt.Sprintf("%d %s %s %q %q", i, m.Event, m.ID, m.Before, m.Text))
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tc.want)
		}
	}
}

// What a tool call of an agent may change is looked at, and nothing else is.
func TestImages(t *testing.T) {
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	rt := memproxy.Route{ID: "letta.send_conversation_message", Params: map[string]string{"conversation_id": "conv-1"}}
	req := memproxy.Request{Method: "POST", EscapedPath: "/v1/conversations/conv-1/messages"}
	for tool, want := range map[string][]string{
		"memory_insert":               {"/v1/agents/agent-1", "/v1/conversations/conv-1", "/v1/blocks/block-9"},
		"archival_memory_insert":      {"/v1/agents/agent-1/archival-memory"},
		"archival_memory_search":      nil,
		"roll_dice":                   nil,
		"send_message_to_agent_async": nil,
	} {
		var asked []string
		for _, im := range a.Images(rt, req, "agent-1", tcall(tool, `{"label":"human"}`)) {
			for {
				q, more := im.Ask()
				if !more {
					break
				}
				asked = append(asked, q.EscapedPath)
				body := map[string]string{"/v1/agents/agent-1": `{"id":"agent-1","blocks":[{"id":"block-1","label":"human","value":"Ann"}]}`,
					"/v1/conversations/conv-1": `{"isolated_block_ids":["block-9"]}`, "/v1/blocks/block-9": `{"id":"block-9","label":"human","value":"own"}`,
					"/v1/agents/agent-1/archival-memory": `[{"id":"passage-1","text":"x"}]`}[q.EscapedPath]
				if err := im.Answered(memproxy.Reply{Status: 200, Body: []byte(body)}); err != nil {
					t.Fatal(err)
				}
			}
			if len(im.Memories()) == 0 || im.Name() == "" || im.Again().Name() != im.Name() {
				t.Errorf("%s: %+v", tool, im)
			}
		}
		if !slices.Equal(asked, want) {
			t.Errorf("%s: %q", tool, asked)
		}
	}
	im := a.Images(rt, req, "agent-1", tcall("memory_insert", `{"label":"human"}`))[0]
	if err := im.Answered(memproxy.Reply{Status: 500}); err == nil {
		t.Error("a server that breaks has said something")
	}
}
