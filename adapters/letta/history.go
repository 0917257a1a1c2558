package letta

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/adapters/pages"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// messageTypes are the types of messages that the server knows (0.16.8).
var messageTypes = [...]string{
	"system_message", "user_message", "assistant_message", "reasoning_message", "hidden_reasoning_message", "tool_call_message", "tool_return_message",
	"approval_request_message", "approval_response_message", "summary_message", "event_message",
}

// onlyTypes returns the message types to which a request limits a list (nil for all) and
// the query without that parameter. The server applies the limit to a page after reading
// it, and stores memory calls as approval requests. So memproxy requests the page without
// the limit, turns approval requests back into calls, and then applies the limit itself.
// If the query has an unknown type, it is unchanged, because the server refuses it.
func (r *row) onlyTypes(query string) (types []string, rest string) {
	const name = "include_return_message_types"
	q, err := url.ParseQuery(query)
	if err != nil || r == nil || slices.ContainsFunc(q[name], func(t string) bool { return !slices.Contains(messageTypes[:], t) }) {
		return nil, query
	}
	switch r.id {
	case "letta.list_messages", "letta.list_conversation_messages", "letta.list_group_messages", "letta.list_all_messages":
		return q[name], pages.DropParam(query, name)
	}
	return nil, query
}

// unpause changes a list of messages to what it would be if the gate had not paused the
// agent: approval requests for memory tools become tool calls, and memproxy's own answers
// are removed. It also removes messages of types that the caller did not request.
func unpause(e *jsondoc.Edits, doc *jsondoc.Doc, query string, types []string) {
	list := doc.Root
	if list.Kind == jsondoc.Object {
		list = list.Get("messages")
	}
	if list == nil || list.Kind != jsondoc.Array {
		return
	}
	names := map[string]string{} // by ids of the calls that required approval
	for _, m := range list.Elems {
		for _, c := range inMessage(m, "approval_request_message", "tool_calls") {
			names[c.Get("tool_call_id").Text()] = c.Get("name").Text()
		}
	}
	given, ours := map[string]bool{}, map[string]bool{} // ids of answered calls, and of calls that memproxy answered
	newest, ran := "", map[string]bool{}                // newest date, and ids of calls with a result
	for _, m := range list.Elems {
		for _, a := range inMessage(m, "approval_response_message", "approvals") {
			id := a.Get("tool_call_id").Text()
			given[id] = true
			// A result that memproxy supplied has no reason with turn.Mark.
			ours[id] = ours[id] || strings.Contains(a.Get("reason").Text(), turn.Mark) || a.Get("type").Text() == "tool" && turn.IsGated(names[id])
		}
		for _, r := range inMessage(m, "tool_return_message", "tool_returns") {
			ran[r.Get("tool_call_id").Text()] = true
		}
		// The system message is left out: the server rewrites it and renews its date.
		if m.Get("message_type").Text() != "system_message" {
			newest = max(newest, m.Get("date").Text())
		}
	}
	goesOn := !mayEndWithNewest(query, len(list.Elems))
	kinds := make(map[*jsondoc.Value]string, len(list.Elems)) // message types to show
	for _, m := range list.Elems {
		kinds[m] = m.Get("message_type").Text()
		calls := inMessage(m, "approval_request_message", "tool_calls")
		all := len(calls) > 0
		for _, c := range calls {
			id := c.Get("tool_call_id").Text()
			// If the answer is on another page, the tool decides whether memproxy gave it. A
			// call without an answer still waits for one.
			all = all && (ours[id] || !given[id] && (goesOn || ran[id] || m.Get("date").Text() < newest) && turn.IsGated(names[id]))
		}
		if all {
			for _, c := range calls {
				ours[c.Get("tool_call_id").Text()] = true
			}
			kinds[m] = "tool_call_message"
		}
	}
	removed := func(m *jsondoc.Value) bool { // memproxy gave all answers in the message
		given := inMessage(m, "approval_response_message", "approvals")
		return len(given) > 0 && !slices.ContainsFunc(given, func(a *jsondoc.Value) bool { return !ours[a.Get("tool_call_id").Text()] })
	}
	some := slices.ContainsFunc(list.Elems, func(m *jsondoc.Value) bool { return !removed(m) }) // an empty page would end a client's paging
	e.Array(list, func(i int) bool {
		m := list.Elems[i]
		if some && removed(m) || types != nil && !slices.Contains(types, kinds[m]) {
			return true
		}
		if kind := m.Get("message_type"); kind.Text() != kinds[m] {
			e.Replace(kind, turn.Quoted(kinds[m]))
		}
		id := m.Get("tool_call_id").Text()
		if name := turn.MissingToolName(m); name != nil && ours[id] && names[id] != "" {
			e.Replace(name, turn.Quoted(names[id])) // as the server names the results of its own tools
		}
		return false
	})
}

// inMessage returns the elements of a list in a message of type kind, and none for other
// messages.
func inMessage(m *jsondoc.Value, kind, list string) []*jsondoc.Value {
	if m.Get("message_type").Text() != kind {
		return nil
	}
	return m.Get(list).List()
}

// defaultPage is the server's default number of messages per page.
const defaultPage = 100

// mayEndWithNewest reports whether a page of n messages may contain the newest message: it
// is the first page in descending order, or a page in ascending order that is not full. On
// other pages every pause is followed by a later message.
func mayEndWithNewest(query string, n int) bool {
	q, err := url.ParseQuery(query)
	if err != nil {
		return true
	}
	if q.Get("order") != "asc" {
		return q.Get("before") == ""
	}
	return n < pageLimit(q)
}

func pageLimit(q url.Values) int {
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil && limit > 0 {
		return limit
	}
	return defaultPage
}

// holdReplier answers held writes for a backend without receipts.
type holdReplier struct{}

// HeldReply implements the gate's HoldReplier. A held passage is answered with an empty
// list of created passages. Letta's other creations return the new object, which does not
// exist yet, so they are refused.
func (holdReplier) HeldReply(rt memproxy.Route, _ memproxy.Request, _ *memproxy.Operation, _ memproxy.Decision) (memproxy.Reply, bool) {
	if rt.ID != "letta.create_passage" {
		return memproxy.Reply{}, false
	}
	return memproxy.Reply{Status: 200, Header: memproxy.Header{"Content-Type": {"application/json"}}, Body: []byte("[]")}, true
}

// ReceiptID implements the gate's HoldReplier: Letta has no receipts.
func (holdReplier) ReceiptID(memproxy.Route) string { return "" }

// ReceiptReply implements the gate's HoldReplier.
func (holdReplier) ReceiptReply(memproxy.Route, memproxy.Request, memproxy.HeldWrite) memproxy.Reply {
	return memproxy.Reply{Status: 404, Header: memproxy.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"detail":"there is no such receipt"}`)}
}

func atBlock(method, id string, body []byte) []memproxy.SideRequest {
	if KindOf(id) != TargetBlock {
		return nil // passages have no route of their own and cannot be changed
	}
	q := sideRequest(memproxy.Request{}, method, "/v1/blocks/"+url.PathEscape(id), "")
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	return []memproxy.SideRequest{{Request: q, Body: body}}
}

// FindRequests implements the gate's restorer.
func (a *Adapter) FindRequests(k memproxy.MemoryKey) []memproxy.SideRequest {
	if k.Kind != memproxy.TargetObject {
		return atBlock("GET", k.ID, nil)
	}
	path, query := fullLocationOf(memproxy.Route{}, k.ID)
	if path == "" {
		return nil
	}
	return []memproxy.SideRequest{{Request: sideRequest(memproxy.Request{}, "GET", path, query)}}
}

// ReadFound implements the gate's restorer.
func (a *Adapter) ReadFound(k memproxy.MemoryKey, reply memproxy.Reply) (memproxy.Memory, error) {
	m, err := a.ReadLocated(memproxy.Route{ID: "letta.retrieve_block", Kind: memproxy.Recall}, k.ID, reply)
	if k.Kind == memproxy.TargetObject {
		m.Text = string(m.Members)
	}
	return m, err
}

// Restore implements the gate's restorer: it writes a block's earlier value with a new
// stamp in its metadata, which the server replaces as a whole. Passages cannot be
// changed, so they cannot be restored.
func (a *Adapter) Restore(to memproxy.Version, now memproxy.Memory, stamp memproxy.Stamp) []memproxy.SideRequest {
	if to.Kind == memproxy.TargetObject {
		return a.bodies.restore(to, now)
	}
	body, err := json.Marshal(struct {
		Value    string          `json:"value"`
		Metadata json.RawMessage `json:"metadata"`
	}{to.Text, stamps.Object(append(stamps.FilterMembers(now.Metadata, false), stamps.Members(&stamp, false))...)})
	if err != nil {
		return nil
	}
	return atBlock("PATCH", to.ID, body)
}

// Remove implements the gate's restorer.
func (a *Adapter) Remove(k memproxy.MemoryKey) []memproxy.SideRequest {
	if k.Kind == memproxy.TargetObject {
		return nil // only memories are removed
	}
	return atBlock("DELETE", k.ID, nil)
}
