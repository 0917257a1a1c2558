package turn

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// PendingCalls returns the calls that the gate has yet to rule on. If the caller must answer
// some calls of a pause, the caller sees the pause first, and the gate rules on its calls
// when the caller's answer arrives.
func (t *Turn) PendingCalls() []memproxy.ToolCall {
	return t.unruled(func(c *call) bool { return c.byGate })
}

// unruled returns the wanted calls without a ruling. Each call is decoded against the
// blocks as the calls before it leave them.
func (t *Turn) unruled(wanted func(*call) bool) []memproxy.ToolCall {
	var out []memproxy.ToolCall
	var blocks *[]selfedit.Block
	if blocksKnown(t) {
		blocks = new(t.view.blocks)
	}
	for _, c := range t.pause.calls {
		if c.ruled || !c.byGate && !c.needsPerson {
			continue
		}
		pending := memproxy.ToolCall{ID: c.id, Tool: c.name, Arguments: []byte(c.arguments), FromEarlierTurn: c.inherited}
		op, err := operation(c.name, t.agent, c.arguments, blocks)
		c.op = op
		if err == nil && op.Kind == memproxy.Learn { // the blocks that the gate locks; those that a call replaces it looks up
			op.Current = t.view.named(t.agent, func(label string) bool {
				return slices.ContainsFunc(op.Items, func(it memproxy.Item) bool { return it.Field == label })
			})
		}
		switch {
		case t.tools.forRules[c.name]: // writes no memory; recovery declines it
		case err != nil:
			errors.As(err, &pending.Flaw)
		case selfedit.Tools[c.name].Uses == selfedit.Memories:
			pending.ReadRequest = c.direct(t.opt.Prefix, t.agent)
		case t.view.retarget(op): // a direct call would change the agent's block instead of the isolated one
			pending.Operation = op
			if len(op.Reserved) > 0 {
				pending.Operation, pending.Flaw = nil, selfedit.Malformed(op.Reserved[0], "this key is reserved for memproxy and cannot be removed from a call on a conversation's isolated block")
			}
		default:
			pending.Operation, pending.Direct = op, c.direct(t.opt.Prefix, t.agent)
		}
		if wanted(c) {
			out = append(out, pending)
		}
	}
	return out
}

// Rule records the decision on a call.
func (t *Turn) Rule(id string, d memproxy.Decision) {
	for _, c := range t.pause.calls {
		if c.id == id {
			c.ruled, c.decision = true, d
			if !d.Verdict.Stops() {
				t.view.refresh(c.op)
			}
		}
	}
}

// Next returns the body of the next request: first the caller's request with the agent's
// memory tools as client tools, then the answers to the pauses.
func (t *Turn) Next() []byte {
	t.requests++
	first := t.requests == 1
	if first && len(t.tools.gated) == 0 && len(t.pause.calls) == 0 {
		return t.opt.Body
	}
	running := t.caller.callsToRun(t.pause.calls)
	limit := t.tools.rules.stepLimit(t.pause.calls, running)
	drop := []string{"client_tools", returnTypes}
	added := [][]byte{append([]byte(`"client_tools":`), jsondoc.ListOf(slices.Concat(t.tools.own, t.tools.shadowed))...)}
	if types := t.caller.typesToCheck(); types != nil {
		added = append(added, append([]byte(`"`+returnTypes+`":`), types...))
	}
	runs := false
	if len(t.pause.calls) > 0 {
		t.out.missingReturns, runs = t.caller.missingReturns(t.pause.calls)
		drop = append(drop, "messages", "input")
		added = append(added, append([]byte(`"messages":`), t.caller.approvalMessages(first, &t.pause)...))
	}
	n := t.caller.stepsLeft(t.out.steps, runs)
	if first {
		n = 0
	}
	if limit > 0 && (n == 0 || limit < n) {
		n = limit
	}
	if t.opt.RecoveryOnly && t.pause.cancelled {
		n = 1 // the calls are denied, and the model of a cancelled run is not asked again
	}
	if n > 0 {
		drop = append(drop, "max_steps")
		added = append(added, strconv.AppendInt([]byte(`"max_steps":`), n, 10))
	}
	e := t.caller.root.Edit()
	e.Object(t.caller.root.Root, func(m *jsondoc.Member) bool { return slices.Contains(drop, m.Name) }, added)
	t.tools.rules.register(t.pause.calls, running)
	allow(t, t.pause.calls)
	t.out.names = map[string]string{}
	for _, c := range t.pause.calls {
		if c.byGate {
			t.out.names[c.id] = c.name
		}
	}
	t.pause.calls, t.pause.messageID = nil, ""
	t.out.stopEvent, t.out.usageEvent, t.out.done = nil, nil, false // of the previous request
	t.out.shift, t.out.started, t.out.refusable = t.out.seq, false, !first
	return e.Apply()
}

// stepsLeft returns how many of the caller's max_steps are left, or 0 if the caller set no
// limit. The server needs one more step to run approved calls.
func (by *caller) stepsLeft(taken int64, runs bool) int64 {
	n, ok := by.root.Int(by.root.Root.Get("max_steps"))
	if !ok {
		return 0
	}
	if n -= taken; runs {
		n = max(0, n) + 1
	}
	return max(1, n)
}

// approvalMessages returns the messages of a request that answers a pause. The first
// request also has the caller's other messages.
func (by *caller) approvalMessages(first bool, p *pause) []byte {
	approval := map[string]any{"type": "approval", "approval_request_id": p.messageID}
	var answers []any
	all := true
	for _, c := range p.calls {
		answer, yes := by.answerTo(c)
		all = all && yes
		answers = append(answers, answer)
	}
	// Some agent loops read the older field (approve), others the newer one (approvals).
	approval["approvals"], approval["approve"] = answers, all
	messages := []any{approval}
	if first {
		messages = append(messages, by.otherMessages()...)
	}
	return marshal(messages)
}

// marshal returns the JSON of texts and of parts of documents, which always marshal.
func marshal(v any) []byte {
	raw, _ := json.Marshal(v)
	return raw
}

// otherMessages returns the caller's messages other than answers to the pause.
func (by *caller) otherMessages() []any {
	var out []any
	if v := by.root.Root.Get("input"); v != nil && v.Kind != jsondoc.Null {
		out = append(out, map[string]any{"type": "message", "role": "user", "content": json.RawMessage(by.root.Raw(v))})
	}
	for _, m := range by.root.Root.Get("messages").List() {
		if !isAnswer(m) {
			out = append(out, json.RawMessage(by.root.Raw(m)))
		}
	}
	return out
}

// denied reports whether the gate denies the call.
func (c *call) denied() bool { return c.byGate && c.decision.Verdict.Stops() }

// lets reports whether neither the gate nor the caller denies a call, or answers it with a result.
func (by *caller) lets(c *call) bool {
	own := by.answerOf(c.id)
	return !c.denied() && (own == nil || own.approves)
}

// answerTo returns the answer to one call and whether it approves. The caller can deny
// a call that the gate allows, but not the reverse.
func (by *caller) answerTo(c *call) (any, bool) {
	own := by.answerOf(c.id)
	deny := func(reason string) (any, bool) {
		return map[string]any{"type": "approval", "tool_call_id": c.id, "approve": false, "reason": reason}, false
	}
	switch {
	case c.denied():
		return deny(reasonOf(c.decision))
	case own != nil && own.raw != nil:
		return own.raw, own.approves
	case own != nil && !own.approves:
		return deny("denied by the user")
	case c.byGate && c.result != nil:
		return c.result, true
	}
	yes := map[string]any{"type": "approval", "tool_call_id": c.id, "approve": true}
	if c.byGate && own == nil {
		yes["reason"] = mark(c.decision) // stored by the server: histories leave it out, and show what a person approved
	}
	return yes, true
}

// mark names the decision, unless the answer follows from the agent's own rules or a cancellation.
func mark(d memproxy.Decision) string {
	if d.ID == "" {
		return "(memproxy)"
	}
	return "(memproxy decision " + d.ID + ")"
}

// Marked reports whether a reason is that of an approval or denial by memproxy.
func Marked(reason string) bool {
	return strings.Contains(reason, "(memproxy)") || strings.Contains(reason, "(memproxy decision ")
}

// reasonOf returns the text that the agent reads instead of the tool's result.
func reasonOf(d memproxy.Decision) string {
	reason := "refused by policy"
	if i := slices.IndexFunc(d.Reasons, func(r memproxy.Reason) bool { return r.Detail != "" }); i >= 0 {
		reason = d.Reasons[i].Detail
	}
	return reason + " " + mark(d)
}

// paused records the calls of a request that ended in a pause. They wait for rulings if the
// gate rules on all of them or if a tool rule requires a person's approval; otherwise the
// caller answers first.
func (t *Turn) paused(calls []*call, request string) {
	byGate, byCaller, byPerson := false, false, false
	for _, c := range calls {
		c.byGate, c.needsPerson = t.tools.gated[c.name], t.tools.needsPerson(c)
		byGate, byCaller, byPerson = byGate || c.byGate, byCaller || !c.byGate, byPerson || c.needsPerson
	}
	t.pause.calls, t.pause.messageID = nil, ""
	switch {
	case byPerson:
		t.awaitRulings(calls, request)
	case byGate && !byCaller:
		t.awaitRulings(calls, request)
		t.tools.constrain(t.pause.calls)
	default:
		recordCallerPause(t, calls, request)
	}
}

// recordCallerPause remembers a pause that the caller answers, and its calls of memory tools.
func recordCallerPause(t *Turn, calls []*call, request string) {
	t.opt.CallerCalls.Add(CallerCallKey(request, ""), struct{}{})
	for _, c := range calls {
		if selfedit.Tools[c.name].Gated() && !t.tools.gateAnswers(c) {
			t.opt.CallerCalls.Add(CallerCallKey(request, c.id), struct{}{})
		}
	}
}

// awaitRulings records the calls of a pause to answer, and requests the blocks that they write to.
func (t *Turn) awaitRulings(calls []*call, request string) {
	t.pause.calls, t.pause.messageID, t.view.requested = calls, request, false
	for _, c := range calls {
		switch {
		case !c.byGate && !c.needsPerson:
		case t.tools.forRules[c.name] && !t.opt.RecoveryOnly:
			c.ruled, c.decision = true, memproxy.Decision{Verdict: memproxy.Allow}
		case selfedit.Tools[c.name].Uses == selfedit.Blocks && !t.view.requested && !t.opt.RecoveryOnly:
			requestBlocks(t)
		}
	}
	if t.out.pieces && len(t.unruled(func(*call) bool { return true })) > 0 {
		requestStored(t)
	}
}

// Paused implements memproxy.Turn.
func (t *Turn) Paused() bool { return len(t.pause.calls) > 0 }
