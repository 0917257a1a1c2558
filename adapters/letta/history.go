package letta

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/adapters/pages"
	"github.com/memproxy/memproxy/adapters/stamps"
	"github.com/memproxy/memproxy/internal/cache"
)

// onlyTypes returns the message types to which a request limits a list (nil for all) and
// the query without that parameter. The server applies the limit to a page after reading
// it, and stores memory calls as approval requests. So memproxy requests the page without
// the limit, turns approval requests back into calls, and then applies the limit itself.
// If the query has an unknown type, it is unchanged, because the server refuses it.
func onlyTypes(r *row, query string) (types []string, rest string) {
	const name = "include_return_message_types"
	q, err := url.ParseQuery(query)
	if err != nil || slices.ContainsFunc(q[name], func(t string) bool { return !slices.Contains(turn.MessageTypes[:], t) }) {
		return nil, query
	}
	switch r.ID {
	case "letta.list_messages", "letta.list_conversation_messages", "letta.list_group_messages", "letta.list_all_messages":
		return q[name], pages.DropParam(query, name)
	}
	return nil, query
}

// callerCalls is a set of calls of memory tools that the caller answers itself, by
// turn.CallerCallKey: those that need a person's approval by a rule of the agent, and those of
// a client tool that has the name of a memory tool. It is lost when the process ends.
type callerCalls = cache.Generations[string, struct{}]

// maxCallerCalls bounds the remembered calls, of about 100 bytes each.
const maxCallerCalls = 4096

// history is a list of messages that is changed to what it would be if the gate had not
// paused the agent.
type history struct {
	e           *jsondoc.Edits
	doc         *jsondoc.Doc
	callerCalls *callerCalls

	callsOf     map[*jsondoc.Value]*calls // by message
	newest      string                    // newest date
	lacksNewest bool                      // the page cannot have the newest message
	descending  bool
}

// calls are the calls that a message can refer to, by their ids.
type calls struct {
	names     map[string]string // of the calls that required approval
	byCaller  map[string]bool   // calls that the caller answers, as far as this process knows
	answered  map[string]bool   // calls with an answer
	byProxy   map[string]bool   // calls that memproxy answered, or will
	hasResult map[string]bool   // calls with a result

	personTools []string // tools that a person approves, if the agent's rules are known
}

func newCalls() *calls {
	return &calls{names: map[string]string{}, byCaller: map[string]bool{}, answered: map[string]bool{}, byProxy: map[string]bool{}, hasResult: map[string]bool{}}
}

// hidePause turns approval requests for memory tools into tool calls, also those that wait
// together with a client tool of the caller, and removes memproxy's own answers. It also
// removes messages of types that the caller did not request (types; nil: all types). alone is
// set if the answer is one message, whose answer is not in the list.
func hidePause(e *jsondoc.Edits, doc *jsondoc.Doc, query string, types []string, alone bool, asks *callerCalls) {
	h := &history{e: e, doc: doc, callerCalls: asks, callsOf: map[*jsondoc.Value]*calls{}}
	list := doc.Root
	if list.Kind == jsondoc.Object {
		h.rewritePending(list)
		list = list.Get("messages")
	}
	if list == nil || list.Kind != jsondoc.Array {
		return
	}
	q, _ := url.ParseQuery(query) // Decode refuses a query that cannot be parsed
	h.lacksNewest, h.descending = alone || !mayEndWithNewest(q, len(list.Elems)), descends(list.Elems, q)
	h.read(list)
	some := slices.ContainsFunc(list.Elems, func(m *jsondoc.Value) bool { return len(h.parts(m)) > 0 }) // an empty page would end a client's paging
	e.Array(list, func(i int) bool {
		m := list.Elems[i]
		h.rewritePending(m) // the element is an agent
		parts := whole(m)
		if some {
			parts = h.parts(m)
		}
		var shown [][]byte
		for _, p := range parts {
			if types == nil || slices.Contains(types, p.Kind) {
				shown = append(shown, p.Raw)
			}
		}
		if len(shown) == 0 {
			return true
		}
		c, id := h.callsOf[m], m.Get("tool_call_id").Text()
		if name := turn.MissingToolName(m); name != nil && c.byProxy[id] && c.names[id] != "" {
			e.Replace(name, jsondoc.Quote(c.names[id])) // as the server names the results of its own tools
		} else if shown[0] != nil {
			e.Replace(m, bytes.Join(shown, []byte{','}))
		}
		return false
	})
}

// read collects the calls, answers and results of a list, from the oldest message on. Some
// models number the calls of each step anew: after a request for a call whose id was used
// before, answers and results are for the new call.
func (h *history) read(list *jsondoc.Value) {
	of, elems := newCalls(), slices.Clone(list.Elems)
	if h.descending {
		slices.Reverse(elems)
	}
	for _, m := range elems {
		requests := inMessage(m, "approval_request_message", "tool_calls")
		if slices.ContainsFunc(requests, func(c *jsondoc.Value) bool {
			id := c.Get("tool_call_id").Text()
			return of.names[id] != "" || of.answered[id] || of.hasResult[id]
		}) {
			of = newCalls()
		}
		h.callsOf[m] = of
		for _, c := range requests {
			id := c.Get("tool_call_id").Text()
			of.names[id] = c.Get("name").Text()
			_, of.byCaller[id] = h.callerCalls.Get(turn.CallerCallKey(m.Get("id").Text(), id))
		}
		for _, a := range inMessage(m, "approval_response_message", "approvals") {
			id := a.Get("tool_call_id").Text()
			of.answered[id] = true
			// A result that memproxy supplied has no reason.
			of.byProxy[id] = of.byProxy[id] || turn.Marked(a.Get("reason").Text()) || a.Get("type").Text() == "tool" && selfedit.Tools[of.names[id]].Gated() && !of.byCaller[id]
		}
		for _, r := range inMessage(m, "tool_return_message", "tool_returns") {
			of.hasResult[r.Get("tool_call_id").Text()] = true
		}
		// The system message is left out: the server rewrites it and renews its date.
		if m.Get("message_type").Text() != "system_message" {
			h.newest = max(h.newest, m.Get("date").Text())
		}
	}
	for _, m := range list.Elems {
		h.readCalls(m)
	}
}

// readCalls adds the calls of an approval request that memproxy answers, or answered. If the
// answer is on another page, the tool decides. A call without an answer still waits: for
// memproxy if the request also has a call that only the caller can answer, and then it is
// answered with that. If this process did not see the pause, the agent's rules tell which
// calls wait for a person.
func (h *history) readCalls(m *jsondoc.Value) {
	_, seen := h.callerCalls.Get(turn.CallerCallKey(m.Get("id").Text(), ""))
	calls := inMessage(m, "approval_request_message", "tool_calls")
	of, callers := h.callsOf[m], slices.ContainsFunc(calls, func(c *jsondoc.Value) bool { return !selfedit.Tools[c.Get("name").Text()].Gated() })
	for _, c := range calls {
		id := c.Get("tool_call_id").Text()
		_, asked := h.callerCalls.Get(turn.CallerCallKey(m.Get("id").Text(), id))
		if of.answered[id] || asked || !seen && slices.Contains(of.personTools, c.Get("name").Text()) || !selfedit.Tools[c.Get("name").Text()].Gated() {
			continue
		}
		if h.lacksNewest || of.hasResult[id] || m.Get("date").Text() < h.newest || callers {
			of.byProxy[id] = true
		}
	}
}

// whole returns a message as it is.
func whole(m *jsondoc.Value) []turn.MessagePart {
	return []turn.MessagePart{{Kind: m.Get("message_type").Text()}}
}

// parts returns a message as the caller saw it. The Raw of a message that is shown as it is
// is nil.
func (h *history) parts(m *jsondoc.Value) []turn.MessagePart {
	ours := func(v *jsondoc.Value) bool { return h.callsOf[m].byProxy[v.Get("tool_call_id").Text()] }
	inList := slices.Concat(inMessage(m, "approval_request_message", "tool_calls"), inMessage(m, "approval_response_message", "approvals"))
	if !slices.ContainsFunc(inList, ours) {
		return whole(m)
	}
	parts := turn.Split(h.doc.Part(m), ours)
	if h.descending {
		slices.Reverse(parts)
	}
	return parts
}

// rewritePending removes the calls that memproxy answers from an agent's pending approval.
func (h *history) rewritePending(agent *jsondoc.Value) {
	m := agent.Get("pending_approval")
	h.callsOf[m] = newCalls()
	for _, r := range agent.Get("tool_rules").List() {
		if r.Get("type").Text() == "requires_approval" {
			h.callsOf[m].personTools = append(h.callsOf[m].personTools, r.Get("tool_name").Text())
		}
	}
	h.readCalls(m)
	for _, p := range h.parts(m) {
		if p.Kind == "approval_request_message" && p.Raw != nil {
			h.e.Replace(m, p.Raw)
		}
	}
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
func mayEndWithNewest(q url.Values, n int) bool {
	if q.Get("order") == "asc" {
		return n < pageLimit(q)
	}
	return q.Get("before") == ""
}

// descends reports whether a list has the newest message first: by the dates of the
// messages, which have seconds; if they are the same, by a call and its result; or else by
// the query.
func descends(elems []*jsondoc.Value, q url.Values) bool {
	first, last := "", ""
	for _, m := range elems {
		if date := m.Get("date").Text(); date != "" && m.Get("message_type").Text() != "system_message" {
			first, last = cmp.Or(first, date), date
		}
	}
	if first != last {
		return first > last
	}
	asked, ran := map[string]bool{}, map[string]bool{}
	for _, m := range elems {
		for _, c := range inMessage(m, "approval_request_message", "tool_calls") {
			id := c.Get("tool_call_id").Text()
			asked[id] = true
			if ran[id] {
				return true
			}
		}
		for _, r := range inMessage(m, "tool_return_message", "tool_returns") {
			id := r.Get("tool_call_id").Text()
			ran[id] = true
			if asked[id] {
				return false
			}
		}
	}
	return q.Get("order") != "asc"
}

func pageLimit(q url.Values) int {
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil && limit > 0 {
		return limit
	}
	return defaultPage
}

// holdReplier answers held writes.
type holdReplier struct{}

// HeldReply implements the gate's Adapter. A held passage is answered with an empty
// list of created passages. Letta's other creations return the new object, which does not
// exist yet, so they are refused.
func (holdReplier) HeldReply(rt memproxy.Route, _ memproxy.Request, _ *memproxy.Operation, _ memproxy.Decision) (memproxy.Reply, bool) {
	if rt.ID != "letta.create_passage" {
		return memproxy.Reply{}, false
	}
	return memproxy.Reply{Status: 200, Header: memproxy.Header{"Content-Type": {"application/json"}}, Body: []byte("[]")}, true
}

func atBlock(method, id string, body []byte) []memproxy.SideRequest {
	if KindOf(id) != TargetBlock {
		return nil // passages have no route of their own and cannot be changed
	}
	q := sideRequest(memproxy.Request{}, method, "/v1/blocks/"+url.PathEscape(id), "")
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

// Restore implements the gate's restorer: it writes a block's earlier value with a new
// stamp in its metadata, which the server replaces as a whole. Passages cannot be
// changed, so they cannot be restored.
func (a *Adapter) Restore(to memproxy.Version, now memproxy.Memory, stamp memproxy.Stamp) []memproxy.SideRequest {
	if to.Kind == memproxy.TargetObject {
		return a.bodies.restore(to, now)
	}
	if to.Field != "" && to.Field != now.Field {
		return nil // the label stays, and the rules for it were not applied to the text
	}
	body, _ := json.Marshal(struct { // a text and JSON always marshal
		Value    string          `json:"value"`
		Metadata json.RawMessage `json:"metadata"`
	}{to.Text, stamps.Object(append(stamps.FilterMembers(now.Metadata, false), stamps.Members(&stamp, false))...)})
	return atBlock("PATCH", to.ID, body)
}

// Remove implements the gate's restorer.
func (a *Adapter) Remove(k memproxy.MemoryKey) []memproxy.SideRequest {
	if k.Kind == memproxy.TargetObject {
		return nil // only memories are removed
	}
	return atBlock("DELETE", k.ID, nil)
}
