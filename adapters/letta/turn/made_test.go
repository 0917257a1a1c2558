package turn_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// ran is an allowed call, and the result that the server reported, if any.
type ran struct{ tool, arguments, status, said string }

// blocksOf returns an agent with blocks, given by label and text in turn.
func blocksOf(of ...string) string {
	var blocks []string
	for i := 0; i < len(of); i += 2 {
		blocks = append(blocks, fmt.Sprintf(`{"id":"block-%d","label":%q,"value":%q}`, i/2+1, of[i], of[i+1]))
	}
	return `{"blocks":[` + strings.Join(blocks, ",") + `]}`
}

// passagesOf returns the passages of an archive, newest first.
func passagesOf(texts ...string) string {
	var out []string
	for i, text := range texts {
		out = append(out, fmt.Sprintf(`{"id":"passage-%d","text":%q}`, len(texts)-i, text))
	}
	return `[` + strings.Join(out, ",") + `]`
}

// waiting returns a turn of an agent that waits for the rulings on calls, each a tool with
// its arguments.
func waiting(t testing.TB, calls ...[2]string) *turn.Turn {
	var tools, asked []map[string]string
	for i, c := range calls {
		tools = append(tools, map[string]string{"name": c[0]})
		asked = append(asked, map[string]string{"name": c[0], "arguments": c[1], "tool_call_id": fmt.Sprint(i)})
	}
	tn := must.Get(turn.New(turn.Options{Prefix: "/v1", Agent: "agent-1", Body: []byte(`{"input":"hi"}`), Memory: func(doc *jsondoc.Doc, v *jsondoc.Value, _ string) memproxy.Memory {
		m := remember(doc, v, "")
		if strings.HasPrefix(m.ID, "block-") {
			m.Members = doc.Raw(v.Get("label"))
		}
		return m
	}}))(t)
	agent := must.Get(json.Marshal(map[string]any{"agent_type": "letta_v1_agent", "tools": tools, "pending_approval": map[string]any{"id": "message-1", "tool_calls": asked}}))(t)
	must.Do(t, tn.ReadSideReply(memproxy.Reply{Status: 200, Body: agent}))
	return tn
}

// Proves SYN-5, EDGE-16: the effects of calls on memory are reported by call, with the
// whole text before and after. They are predicted where the server's result confirms
// the prediction; otherwise the memory is read once.
func TestMade(t *testing.T) {
	insert := func(text string) string { return fmt.Sprintf(`{"label":"human","new_string":%q}`, text) }
	replace := `{"label":"human","old_string":"Ann","new_string":"Bob"}`
	for name, c := range map[string]struct {
		before, after string // "": not requested
		archive       string
		calls         []ran
		want          []string
	}{
		"one edit": {blocksOf("human", "Ann"), "", "", []ran{{"memory_insert", insert("likes tea"), "success", "Ann\nlikes tea"}},
			[]string{`0 UPDATE block-1 "Ann" "Ann\nlikes tea"`}},
		"an edit that failed":                {blocksOf("human", "Ann"), "", "", []ran{{"memory_replace", `{"label":"human","old_string":"x","new_string":"y"}`, "error", "no such text"}}, nil},
		"one that fails where it should not": {blocksOf("human", "Ann"), blocksOf("human", "Ann"), "", []ran{{"memory_insert", insert("x"), "error", "the database is away"}}, nil},
		"the server says another text: somebody wrote in between": {blocksOf("human", "Ann"), blocksOf("human", "Eve\nx"), "", []ran{{"memory_insert", insert("x"), "success", "Eve\nx"}},
			[]string{`0 UPDATE block-1 "Ann" "Eve\nx"`}},
		"the server says only a part": {blocksOf("human", "Ann"), blocksOf("human", "Ann\nx"), "", []ran{{"memory_insert", insert("x"), "success", "Ann"}},
			[]string{`0 UPDATE block-1 "Ann" "Ann\nx"`}},
		"an answer that broke off": {blocksOf("human", "Ann"), blocksOf("human", "Ann\nx"), "", []ran{{"memory_insert", insert("x"), "", ""}},
			[]string{`0 UPDATE block-1 "Ann" "Ann\nx"`}},
		"two edits of one block": {blocksOf("human", "Ann"), "", "", []ran{{"memory_insert", insert("likes tea"), "success", "Ann\nlikes tea"}, {"memory_replace", replace, "success", "Bob\nlikes tea"}},
			[]string{`0 UPDATE block-1 "Ann" "Ann\nlikes tea"`, `1 UPDATE block-1 "Ann\nlikes tea" "Bob\nlikes tea"`}},
		"three, of which one is refused by the server": {blocksOf("human", "Ann"), "", "", []ran{
			{"core_memory_append", `{"label":"human","content":"x"}`, "success", "Ann\nx"}, {"memory_replace", `{"label":"human","old_string":"Eve","new_string":"Bob"}`, "error", ""},
			{"core_memory_append", `{"label":"human","content":"y"}`, "success", "Ann\nx\ny"}},
			[]string{`0 UPDATE block-1 "Ann" "Ann\nx"`, `2 UPDATE block-1 "Ann\nx" "Ann\nx\ny"`}},
		"two of which nothing is said, and that come to what was foreseen": {blocksOf("human", "Ann"), blocksOf("human", "Ann\nx\ny"), "", []ran{
			{"core_memory_append", `{"label":"human","content":"x"}`, "", ""}, {"core_memory_append", `{"label":"human","content":"y"}`, "", ""}},
			[]string{`0 UPDATE block-1 "Ann" "Ann\nx"`, `1 UPDATE block-1 "Ann\nx" "Ann\nx\ny"`}},
		"two that come to something else": {blocksOf("human", "Ann"), blocksOf("human", "Eve\nx\ny"), "", []ran{
			{"core_memory_append", `{"label":"human","content":"x"}`, "success", "Eve\nx"}, {"core_memory_append", `{"label":"human","content":"y"}`, "success", "Eve\nx\ny"}},
			[]string{`1 UPDATE block-1 "Ann" "Eve\nx\ny"`}},
		"two that come to what there was": {blocksOf("human", "Ann"), blocksOf("human", "Ann"), "", []ran{
			{"core_memory_append", `{"label":"human","content":"x"}`, "error", "the database is away"}, {"memory_rethink", `{"label":"human","new_memory":"Ann"}`, "success", "Ann"}}, nil},
		"a patch": {blocksOf("human", "Ann"), "", "", []ran{{"memory_apply_patch", `{"label":"human","patch":"-Ann\n+Ann B."}`, "success", "Ann B."}},
			[]string{`0 UPDATE block-1 "Ann" "Ann B."`}},
		"a new block": {blocksOf("human", "Ann"), blocksOf("human", "Ann", "notes", "x"), "",
			[]ran{{"memory", `{"command":"create","path":"/memories/notes","description":"d","file_text":"x"}`, "success", "Successfully created"}}, []string{`0 ADD block-2 "" "x"`}},
		"a block that is let go is no change of its text": {blocksOf("human", "Ann"), blocksOf(), "", []ran{{"memory", `{"command":"delete","path":"/memories/human"}`, "success", "deleted"}}, nil},
		"a block under another label, and another edit": {blocksOf("human", "Ann", "persona", "helper"), blocksOf("notes", "Ann", "persona", "helper\nx"), "", []ran{
			{"memory", `{"command":"rename","old_path":"/memories/human","new_path":"/memories/notes"}`, "success", "renamed"},
			{"memory_insert", `{"label":"persona","new_string":"x"}`, "success", "helper\nx"}},
			[]string{`0 NONE block-1 "" "Ann" was "human"`, `1 UPDATE block-2 "helper" "helper\nx"`}},
		"arguments that cannot be read": {blocksOf("human", "Ann"), blocksOf("human", "Bob"), "", []ran{{"memory_rethink", `{"label`, "success", "Bob"}}, []string{`0 UPDATE block-1 "Ann" "Bob"`}},
		"passages go to who said them, and others stay whose they are": {"", "", passagesOf("one", "two", "one", "one"), []ran{
			{"archival_memory_insert", `{"content":"two"}`, "success", ""}, {"archival_memory_insert", `{"content":"one"}`, "success", ""}},
			[]string{`0  passage-3 "" "two"`, `1  passage-4 "" "one"`}},
		"a passage that was not put in":      {"", "", "", []ran{{"archival_memory_insert", `{"content":"one"}`, "error", ""}}, nil},
		"a passage of which nothing is said": {"", "", "", []ran{{"archival_memory_insert", `{"content":"one"}`, "", ""}}, nil},
		"a passage beyond what is looked at": {"", "", passagesOf("others"), []ran{{"archival_memory_insert", `{"content":"one"}`, "success", ""}}, nil},
		"a call that was denied":             {blocksOf("human", "Ann"), "", "", []ran{{"memory_insert", insert("x"), "denied", ""}}, nil},
		"a message to another agent":         {"", "", "", []ran{{"send_message_to_agent_async", `{"message":"x","other_agent_id":"agent-2"}`, "success", ""}}, nil},
	} {
		var calls [][2]string
		for _, r := range c.calls {
			calls = append(calls, [2]string{r.tool, r.arguments})
		}
		tn := waiting(t, calls...)
		answers := func(blocks string) (n int) {
			for {
				q, more := tn.NextSideRequest()
				if !more {
					return n
				}
				n++
				body := blocks
				if strings.HasSuffix(q.EscapedPath, "/archival-memory") {
					body = c.archive
				}
				if body == "" {
					t.Fatalf("%s: asked for %s", name, q.EscapedPath)
				}
				must.Do(t, tn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(body)}))
			}
		}
		answers(c.before)
		var said []map[string]string
		for i, r := range c.calls {
			d := memproxy.Decision{ID: "d-1", Verdict: memproxy.Allow}
			if r.status == "denied" {
				d.Verdict = memproxy.Deny
			}
			tn.Rule(fmt.Sprint(i), d)
			if r.status != "" {
				said = append(said, map[string]string{"tool_call_id": fmt.Sprint(i), "status": r.status, "tool_return": r.said})
			}
		}
		request(t, tn)
		must.Do(t, tn.ReadAnswer(must.Get(json.Marshal(map[string]any{
			"messages": []any{map[string]any{"message_type": "tool_return_message", "tool_returns": said}}, "stop_reason": map[string]string{"stop_reason": "end_turn"},
		}))(t)))
		if n, want := answers(c.after), min(len(c.after), 1)+min(len(c.archive), 1); n != want {
			t.Errorf("%s: %d side requests afterwards, want %d", name, n, want)
		}
		var got []string
		for _, e := range tn.TakeEdits() {
			for _, m := range e.Memories {
				line := fmt.Sprintf("%s %s %s %q %q", e.Call, m.Event, m.ID, m.Before, m.Text)
				if m.PreviousMembers != nil {
					line += " was " + string(m.PreviousMembers)
				}
				got = append(got, line)
			}
		}
		expect.List(t, got, c.want, name)
		expect.Len(t, tn.TakeEdits(), 0, name, "told twice")
	}
}

// Proves EDGE-16, TRL-5: a call that waited for another change follows the block that the gate
// fetched for it, and not the one that a refused call of the same pause was to change.
func TestCallsFollowWhatTheGateFetched(t *testing.T) {
	tn := waiting(t, [2]string{"memory_insert", `{"label":"human","new_string":"x"}`}, [2]string{"memory_insert", `{"label":"human","new_string":"y"}`})
	tn.NextSideRequest()
	must.Do(t, tn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(blocksOf("human", "Ann"))}))
	for i, c := range tn.PendingCalls() {
		d := memproxy.Decision{ID: "d-1", Verdict: memproxy.Deny}
		if i == 0 {
			d.Verdict, c.Operation.Current["agent-1/human"] = memproxy.Allow, memproxy.Memory{ID: "block-1", Text: "Eve"}
		}
		tn.Rule(c.ID, d)
	}
	request(t, tn)
	must.Do(t, tn.ReadAnswer([]byte(`{"messages":[{"message_type":"tool_return_message","tool_returns":[{"tool_call_id":"0","status":"success","tool_return":"Eve\nx"}]}],"stop_reason":{"stop_reason":"end_turn"}}`)))
	if q, more := tn.NextSideRequest(); more {
		t.Errorf("asked for %s", q.EscapedPath)
	}
	edits := tn.TakeEdits()
	must.Len(t, edits, 1)
	must.Len(t, edits[0].Memories, 1)
	expect.Equal(t, edits[0].Memories[0].Before, "Eve")
}

// Proves EDGE-16: the effect of a directly run tool is predicted from the blocks before
// it; it is not reported if the blocks cannot be read afterwards.
func TestToolRun(t *testing.T) {
	for name, c := range map[string]struct {
		tool, answer string
		after        int // status of the second look; 0: there is none
		want         int
	}{
		"as foreseen":            {"memory_insert", `{"status":"success","func_return":"Ann\nx"}`, 0, 1},
		"not as foreseen":        {"memory_insert", `{"status":"success","func_return":"Eve\nx"}`, 200, 1},
		"not seen":               {"memory_insert", `{"status":"success","func_return":"Eve\nx"}`, 500, 0},
		"it writes no memory":    {"roll_dice", "", 0, 0},
		"it searches":            {"archival_memory_search", "", 0, 0},
		"an answer of no format": {"memory_insert", `{`, 200, 1},
	} {
		r := turn.NewToolRun(turn.Options{Prefix: "/v1", Memory: remember, Agent: "agent-1"}, c.tool, `{"label":"human","new_string":"x"}`)
		if r == nil {
			expect.Equal(t, c.answer, "", name, "it is not followed")
			continue
		}
		if _, more := r.NextSideRequest(); !more || r.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(blocksOf("human", "Ann"))}) != nil {
			t.Fatalf("%s: the blocks are not asked for", name)
		}
		err := r.ReadAnswer([]byte(c.answer))
		if (err != nil) != (c.answer == "{") {
			t.Errorf("%s: %v", name, err)
		}
		if _, more := r.NextSideRequest(); more != (c.after != 0) {
			t.Errorf("%s: asked for more: %v", name, more)
		}
		if c.after != 0 {
			if err := r.ReadSideReply(memproxy.Reply{Status: c.after, Body: []byte(blocksOf("human", "Eve\nx"))}); (err != nil) != (c.after == 500) {
				t.Errorf("%s: %v", name, err)
			}
		}
		n := 0
		for _, e := range r.TakeEdits() {
			n += len(e.Memories)
		}
		expect.Equal(t, n, c.want, name)
	}
}

// Proves EDGE-16, SYN-1: a call from outside is ruled on with what it makes of the blocks,
// as one of the agent's own is: whole lines, and all that the field then holds. An agent
// that the server does not show is left to the server.
func TestToolRunMakes(t *testing.T) {
	for name, c := range map[string]struct {
		tool, arguments string
		status          int
		line            string
		size            int
	}{
		"the middle of a line": {"memory_replace", `{"label":"human","old_string":"QQ","new_string":"tea"}`, 200, "likes tea a lot", 19},
		"one more line":        {"memory_insert", `{"label":"human","new_string":"x"}`, 200, "x", 20},
		"no such agent":        {"memory_insert", `{"label":"human","new_string":"x"}`, 404, "x", 1},
		"no such block":        {"memory_insert", `{"label":"other","new_string":"x"}`, 200, "x", 1},
	} {
		r := turn.NewToolRun(turn.Options{Prefix: "/v1", Memory: remember, Agent: "agent-1"}, c.tool, c.arguments)
		if _, more := r.NextSideRequest(); !more || r.ReadSideReply(memproxy.Reply{Status: c.status, Body: []byte(blocksOf("human", "Ann\nlikes QQ a lot"))}) != nil {
			t.Fatalf("%s: the blocks are not asked for", name)
		}
		op := must.Get(turn.Read(c.tool, "agent-1", c.arguments))(t)
		n := len(op.Items)
		r.AddContent(op)
		if slices.ContainsFunc(op.Items[n:], func(it memproxy.Item) bool { return it.Inferred || it.Role != "" }) {
			t.Errorf("%s: a model's words: %+v", name, op.Items[n:])
		}
		size, found := 0, false
		for _, it := range op.Items {
			size += it.Characters()
			found = found || it.Text == c.line
		}
		if !found || size < c.size {
			t.Errorf("%s: %+v of %d characters, want %q and %d", name, op.Items, size, c.line, c.size)
		}
	}
	r := turn.NewToolRun(turn.Options{Prefix: "/v1", Memory: remember, Agent: "agent-1"}, "memory_insert", `{}`)
	if r.NextSideRequest(); r.ReadSideReply(memproxy.Reply{Status: 500}) == nil {
		t.Error("a server that fails is not waited for")
	}
}
