package turn

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Waiting are the calls that the gate has yet to rule on. A pause in which the
// caller has a say as well is the caller's first: nothing waits then, and its
// answer brings the calls back.
func (t *Turn) Waiting() []memproxy.ToolCall {
	return t.unruled(func(c *call) bool { return c.mine })
}

// unruled are those of the calls without a ruling that are wanted. Each is read
// as the calls before it leave the blocks.
func (t *Turn) unruled(wanted func(*call) bool) []memproxy.ToolCall {
	var out []memproxy.ToolCall
	var blocks *memory
	if t.view.looked {
		blocks = &memory{t.view.blocks}
	}
	for _, c := range t.pause.calls {
		if c.ruled || !c.mine && !c.person {
			continue
		}
		asked := memproxy.ToolCall{ID: c.id, Tool: c.name, Arguments: []byte(c.arguments)}
		op, err := operation(c.name, t.agent, c.arguments, blocks)
		switch {
		case t.tools.free[c.name]: // only declined, when nobody else answers
		case err != nil:
			asked.Flaw = flawOf(err)
		case t.tools.memory[c.name].search:
			asked.Search = c.direct(t.opt.Prefix, t.agent)
		case t.view.place(op): // a call from outside would be made in the agent's block
			if asked.Operation = op; len(op.Reserved) > 0 {
				asked.Operation, asked.Flaw = nil, malformed(op.Reserved[0], "this is memproxy's own, and the call cannot be changed in a block of the conversation's own")
			}
		default:
			asked.Operation, asked.Direct = op, c.direct(t.opt.Prefix, t.agent)
		}
		if wanted(c) {
			out = append(out, asked)
		}
	}
	return out
}

func flawOf(err error) *memproxy.Malformed {
	if m, ok := err.(*memproxy.Malformed); ok {
		return m
	}
	return malformed("", "the arguments cannot be read")
}

// Rule takes a ruling.
func (t *Turn) Rule(id string, d memproxy.Decision) {
	for _, c := range t.pause.calls {
		if c.id == id {
			c.ruled, c.decision = true, d
		}
	}
}

// Next returns the body of the next request: the caller's, with its memory
// tools named as client tools; then answers to what the agent waits for.
func (t *Turn) Next() ([]byte, error) {
	t.requests++
	first := t.requests == 1
	if first && len(t.tools.gated) == 0 && len(t.pause.calls) == 0 {
		return t.opt.Body, nil
	}
	running := t.caller.runs(t.pause.calls)
	limit := t.tools.rules.limit(t.pause.calls, running)
	drop := []string{"client_tools", "include_return_message_types"}
	tools, err := json.Marshal(append(slices.Clone(t.tools.own), t.tools.shadowed...))
	if err != nil {
		return nil, err
	}
	added := [][]byte{append([]byte(`"client_tools":`), tools...)}
	runs := false
	if len(t.pause.calls) > 0 {
		t.out.owed, runs = t.caller.owe(t.pause.calls)
		messages, err := t.caller.continued(first, &t.pause)
		if err != nil {
			return nil, err
		}
		drop = append(drop, "messages", "input")
		added = append(added, append([]byte(`"messages":`), messages...))
	}
	n := t.caller.stepsLeft(t.out.steps(), runs)
	if first {
		n = 0
	}
	if limit > 0 && (n == 0 || limit < n) {
		n = limit
	}
	if n > 0 {
		drop = append(drop, "max_steps")
		added = append(added, strconv.AppendInt([]byte(`"max_steps":`), n, 10))
	}
	e := t.caller.root.Edit()
	e.Object(t.caller.root.Root, func(name string) bool { return slices.Contains(drop, name) }, added)
	t.tools.rules.register(t.pause.calls, running)
	t.let = foresee(t.pause.calls, &t.caller, &t.view)
	t.pause.calls, t.pause.request = nil, ""
	return e.Apply(), nil
}

// stepsLeft is what is left of the caller's step budget; zero when the caller
// set none. To run what was approved costs the server a step of its own.
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

// continued are the messages of a request that answers a pause. On the first request
// what the caller has to say follows, without its own answers, which are
// merged.
func (by *caller) continued(first bool, p *pause) ([]byte, error) {
	approval := map[string]any{"type": "approval", "approval_request_id": p.request}
	var answers []any
	all := true
	for _, c := range p.calls {
		answer, yes := by.answerTo(c)
		all = all && yes
		answers = append(answers, answer)
	}
	// The older fields next to the newer: loops differ in which they read.
	approval["approvals"], approval["approve"] = answers, all
	messages := []any{approval}
	if first {
		messages = append(messages, by.said()...)
	}
	return json.Marshal(messages)
}

// answerTo is the answer to one call. What the gate denies stays denied
// whatever the caller says; what it allows the caller may still deny.
func (by *caller) answerTo(c *call) (any, bool) {
	own := by.answerOf(c.id)
	deny := func(reason string) (any, bool) {
		return map[string]any{"type": "approval", "tool_call_id": c.id, "approve": false, "reason": reason}, false
	}
	switch {
	case c.mine && c.decision.Verdict.Stops():
		return deny(reasonOf(c.decision))
	case own != nil && own.raw != nil:
		return own.raw, own.approves
	case own != nil && !own.approves:
		return deny("denied by the user")
	case c.mine && c.result != nil:
		return c.result, true
	}
	yes := map[string]any{"type": "approval", "tool_call_id": c.id, "approve": true}
	if c.mine {
		yes["reason"] = Mark + c.decision.ID + ")" // the server keeps it, so histories tell whose approval it was
	}
	return yes, true
}

// Mark stands in the reason of every answer of the gate's.
const Mark = "(memproxy decision "

// reasonOf is what the agent reads instead of the tool's result.
func reasonOf(d memproxy.Decision) string {
	reason := "refused by policy"
	for _, r := range d.Reasons {
		if r.Detail != "" {
			reason = r.Detail
			break
		}
	}
	return reason + " " + Mark + d.ID + ")"
}

// said are the caller's messages but for its answers to the pause.
func (by *caller) said() []any {
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

// paused takes the calls of a request that ended in a pause. When all are the
// gate's, they wait for rulings; those that a person is asked about by a rule
// of the agent's own are the caller's first.
func (t *Turn) paused(calls []*call, request string) {
	mine, others, asks := false, false, false
	for _, c := range calls {
		c.mine, c.person = t.tools.gated[c.name], t.tools.asks(c)
		mine, others, asks = mine || c.mine, others || !c.mine, asks || c.person
	}
	t.pause.calls, t.pause.request = nil, ""
	switch {
	case asks:
		t.wait(calls, request)
	case mine && !others:
		t.wait(calls, request)
		t.tools.constrain(t.pause.calls)
	}
}

// wait takes calls that are to be answered.
func (t *Turn) wait(calls []*call, request string) {
	t.pause.calls, t.pause.request, t.view.looked, t.view.looking, t.view.looks = calls, request, false, false, nil
	for _, c := range calls {
		switch {
		case !c.mine && !c.person:
		case t.tools.free[c.name] && !t.opt.Recovers:
			c.ruled, c.decision = true, memproxy.Decision{ID: "none", Verdict: memproxy.Allow}
		case writesBlocks(c.name) && t.view.looks == nil && !t.opt.Recovers:
			t.view.look(&t.opt, t.agent)
		}
	}
	if t.out.pieces && len(t.unruled(func(*call) bool { return true })) > 0 {
		t.view.looks = append(t.view.looks, t.pause.whole(&t.opt, t.agent))
	}
}

// Paused implements memproxy.Turn.
func (t *Turn) Paused() bool { return len(t.pause.calls) > 0 }
