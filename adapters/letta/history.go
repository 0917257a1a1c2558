package letta

import (
	"bytes"
	"strings"

	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// pausedHistory reports whether an answer may hold messages of a pause.
func pausedHistory(body []byte) bool {
	return bytes.Contains(body, []byte(`approval_request_message`)) || bytes.Contains(body, []byte(`approval_response_message`))
}

// unpause makes a list of messages read as if the gate had not paused the
// agent: a request to approve memory tools is the call that it was for the
// caller, and the answer that memproxy gave is left out.
func unpause(e *jsondoc.Edits, doc *jsondoc.Doc) {
	list := doc.Root
	if list.Kind == jsondoc.Object {
		list = list.Get("messages")
	}
	if list == nil || list.Kind != jsondoc.Array {
		return
	}
	ours := map[string]bool{} // ids of calls that the gate answered
	for _, m := range list.Elems {
		if m.Get("message_type").Text() != "approval_request_message" {
			continue
		}
		calls := m.Get("tool_calls")
		if calls == nil || len(calls.Elems) == 0 {
			continue
		}
		all := true
		for _, c := range calls.Elems {
			all = all && turn.Gated(c.Get("name").Text())
		}
		if !all {
			continue
		}
		for _, c := range calls.Elems {
			ours[c.Get("tool_call_id").Text()] = true
		}
		e.Replace(m.Get("message_type"), []byte(`"tool_call_message"`))
	}
	kept := 0
	for _, m := range list.Elems {
		if !answered(m, ours) {
			kept++
		}
	}
	if kept > 0 { // an emptied page would end a client's paging
		e.Array(list, func(i int) bool { return answered(list.Elems[i], ours) })
	}
}

// answered reports whether a message is an answer that memproxy gave: to calls
// of this page that were its own, or in its own words.
func answered(m *jsondoc.Value, ours map[string]bool) bool {
	if m.Get("message_type").Text() != "approval_response_message" {
		return false
	}
	approvals := m.Get("approvals")
	if approvals == nil || len(approvals.Elems) == 0 {
		return false
	}
	for _, a := range approvals.Elems {
		if !ours[a.Get("tool_call_id").Text()] && !strings.Contains(a.Get("reason").Text(), turn.Mark) {
			return false
		}
	}
	return true
}
