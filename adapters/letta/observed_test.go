package letta_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves TRL-4: of the server's own tools only those that fetch something are observed;
// a result belongs to its call, and an incomplete call is unclear.
func TestWhoseWordsToolsSay(t *testing.T) {
	a := adapter(t)
	rt := memproxy.Route{ID: "letta.send_message", Kind: memproxy.Run}
	for tool, heard := range map[string]bool{
		"web_search": true, "fetch_webpage": true, "grep_files": true, "semantic_search_files": true, "acme_weather": true,
		"run_code": false, "run_code_with_tools": false, "send_message": false, "send_message_to_agent_and_wait_for_reply": false,
		"send_message_to_agents_matching_tags": false, "conversation_search": false, "archival_memory_search": false, "search_memory": false,
		"open_files": false, "memory_insert": false, "core_memory_append": false, "store_memories": false, "": false,
	} {
		body := fmt.Sprintf(`{"messages":[
			{"message_type":"tool_call_message","tool_call":{"name":%q,"arguments":"{\"q\":{\"tea\":[\"green\"]}}","tool_call_id":"c1"}},
			{"message_type":"tool_return_message","name":%q,"tool_returns":[{"tool_return":"{\"title\":\"It rains.\"}","status":"success","tool_call_id":"c1"}]},
			{"message_type":"tool_return_message","name":%q,"tool_return":"It failed.","status":"error","tool_call_id":"c1"},
			{"message_type":"tool_return_message","name":%q,"tool_return":"Nobody asked.","status":"success"}]}`, tool, tool, tool, tool)
		calls, results := a.ObserveTools(rt).Observe([]byte(body))
		if len(calls) != 1 || calls[0].Call != "c1" || calls[0].Unclear || !slices.Equal(calls[0].Texts, []string{"q", "tea", "green"}) {
			t.Errorf("%s: calls %+v", tool, calls)
		}
		if heard != (len(results) == 1 && results[0].Call == "c1" && slices.Equal(results[0].Texts, []string{"It rains."})) || !heard && len(results) > 0 {
			t.Errorf("%s: results %+v", tool, results)
		}
	}
	for _, piece := range []string{`{\"q\":`, `\"tea\"}`, `{\"q\":1,\"q\":2}`, `null`, `[\"tea\"]`} {
		l := a.ObserveTools(rt)
		first, _ := l.Observe([]byte(`{"message_type":"tool_call_message","tool_call":{"name":"web_search","arguments":"` + piece + `","tool_call_id":"c1"}}`))
		calls, _ := l.Observe([]byte(`{"message_type":"stop_reason","stop_reason":"end_turn"}`))
		if len(first) > 0 || len(calls) != 1 || !calls[0].Unclear {
			t.Errorf("%s: %+v, %+v", piece, first, calls)
		}
	}
}

// Proves TRL-4: calls in a token stream are reassembled: several at once, with pings in
// between and names in the first fragments only; results belong to the tool of that
// name, in any event. Calls that are too large are unclear.
func TestCallsByTokensAreHeard(t *testing.T) {
	a := adapter(t)
	l := a.ObserveTools(memproxy.Route{ID: "letta.send_message", Kind: memproxy.Run})
	part := func(kind, c string) string {
		return `{"message_type":"` + kind + `","tool_call":{` + c + `},"tool_calls":{` + c + `}}`
	}
	for _, event := range []string{
		part("tool_call_message", `"name":"fetch_webpage","arguments":null,"tool_call_id":"c1"`),
		part("tool_call_message", `"name":null,"arguments":"{\"url\":","tool_call_id":"c1"`),
		part("tool_call_message", `"name":"run_code","arguments":"{\"code\":","tool_call_id":"c2"`),
		`{"message_type":"ping"}`,
		part("tool_call_message", `"name":null,"arguments":"\"x\"}","tool_call_id":"c2"`),
		part("tool_call_message", `"arguments":"1}"`), // of the last call
		part("tool_call_message", `"name":null,"arguments":"\"a\"}","tool_call_id":"c1"`),
	} {
		if calls, results := l.Observe([]byte(event)); len(calls)+len(results) > 0 {
			t.Errorf("%s: %+v %+v", event, calls, results)
		}
	}
	calls, results := l.Observe([]byte(`{"message_type":"tool_return_message","name":"fetch_webpage","tool_returns":[
		{"tool_return":"It rains.","status":"success","tool_call_id":"c1"},{"tool_return":"7","status":"success","tool_call_id":"c2"}]}`))
	if len(calls) != 2 || calls[0].Call != "c1" || calls[0].Unclear || !slices.Equal(calls[0].Texts, []string{"url", "a"}) || calls[1].Call != "c2" || !calls[1].Unclear {
		t.Errorf("%+v", calls)
	}
	if len(results) != 1 || results[0].Call != "c1" || !slices.Equal(results[0].Texts, []string{"It rains."}) {
		t.Errorf("%+v", results)
	}
	for range 40 { // 32 KB each
		l.Observe([]byte(part("tool_call_message", `"name":null,"arguments":"`+strings.Repeat(" ", 32<<10)+`","tool_call_id":"c3"`)))
	}
	l.Observe([]byte(part("tool_call_message", `"name":"echo","arguments":"{}","tool_call_id":"c3"`)))
	if calls, _ := l.Observe([]byte(`{"message_type":"stop_reason"}`)); len(calls) != 2 || !calls[1].Unclear {
		t.Errorf("%+v", calls)
	}
	for i := range 1025 {
		l.Observe([]byte(part("tool_call_message", fmt.Sprintf(`"name":"echo","arguments":"{}","tool_call_id":"d%d"`, i))))
	}
	for _, want := range []int{1025, 0} { // 1,024, and one for those that were not kept
		calls, _ := l.Observe([]byte(`{"message_type":"stop_reason"}`))
		if len(calls) != want || want > 0 && (!calls[want-1].Unclear || calls[want-2].Unclear) {
			t.Errorf("%d calls", len(calls))
		}
	}
}
