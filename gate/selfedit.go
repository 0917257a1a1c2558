package gate

import (
	"cmp"
	"context"

	"github.com/memproxy/memproxy"
)

// An Editor is an Adapter whose backend's agents write their own memory by tools,
// which requests may also run in their place.
type Editor interface {
	// ToolRun follows the tool call that a request makes in an agent's place; nil
	// where it makes none that writes.
	ToolRun(route memproxy.Route, req memproxy.Request, body []byte) memproxy.Edits
}

// Changed keeps what a tool call made of memories: versions, owners, states.
func (g Agents) Changed(ctx context.Context, ruled *Admission, memories []memproxy.Memory) {
	if len(memories) == 0 || ruled.op == nil || !ruled.enforced() {
		return
	}
	a, op := *ruled, *ruled.op
	op.Kind = memproxy.Learn // whatever it is called, what came of it is told as of an addition
	a.op = &op
	ret := &answer{Admission: &a, g: g.Gate, status: statusOK, reading: &memproxy.Reading{Memories: memories}, self: true}
	(&effects{answer: ret}).remember(ctx)
	g.outcome(ctx, ret)
}

// followEdits makes the side requests of a tool call.
func followEdits(ctx context.Context, g *Gate, a *Admission) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.FetchTimeout)
	defer cancel()
	for {
		q, more := a.edits.Prepare()
		if !more {
			return nil
		}
		q.Header = a.call.Request.Header
		reply, err := a.call.Backend.Fetch.Fetch(ctx, q)
		if err == nil {
			err = a.edits.Prepared(reply)
		}
		if err != nil {
			g.opt.Log.ErrorContext(ctx, "what an agent wrote is no version: the backend could not be asked for it", "decision", a.Decision.ID, "error", err)
			return err
		}
	}
}

// unfollowed: the request makes no tool call in an agent's place.
func unfollowed(r *run) bool {
	_, ok := r.call.Backend.Adapter.(Editor)
	return !ok || !r.enforced() || r.call.Backend.Fetch == nil || r.op == nil || !r.op.Kind.Writes() || r.Reply != nil || r.Decision.Verdict.Stops()
}

// precede prepares to follow what a request changes that makes a tool call in an
// agent's place. It is history, not permission: where the backend cannot be asked,
// the log says so.
func precede(ctx context.Context, r *run) error {
	if r.edits = r.call.Backend.Adapter.(Editor).ToolRun(r.call.Route, r.call.Request, r.Body); r.edits != nil && followEdits(ctx, r.g, r.Admission) != nil {
		r.edits = nil
	}
	return nil
}

// keepEdits keeps what the call made.
func keepEdits(ctx context.Context, g *Gate, a *Admission, answer []byte) {
	if err := a.edits.Whole(answer); err != nil {
		g.opt.Log.ErrorContext(ctx, "what an agent wrote is no version: the answer cannot be read", "decision", a.Decision.ID, "error", err)
		return
	}
	_ = followEdits(ctx, g, a) // what needed no asking is known; the rest is in the log
	for _, e := range a.edits.Made() {
		g.Agents().Changed(ctx, a, e.Memories)
	}
}

// A Bringer is an Adapter some of whose operations bring existing memories
// where an agent reads them, without their texts in the payload: a block that
// is attached to another agent.
type Bringer interface {
	// Brings returns those of the operation's targets. What an operation takes
	// away, or replaces, is none of them.
	Brings(memproxy.Route, *memproxy.Operation) []string
}

// brings are the targets that come before an agent by an operation.
func brings(c *Call, op *memproxy.Operation) []string {
	b, ok := c.Backend.Adapter.(Bringer)
	if !ok {
		return nil
	}
	return b.Brings(c.Route, op)
}

// refuseWithheld refuses to bring what no reader would be shown for its state: an agent
// would read it within the backend. It is refused for everybody, reviewers too,
// because the agent is none.
func refuseWithheld(ctx context.Context, r *run) {
	ids := brings(r.call, r.op)
	if len(ids) == 0 {
		return
	}
	known := r.lookups()
	if err := known.need(ctx, known.keys(r.op.TargetKind, ids...)...); err != nil {
		ledgerFailed(ctx, r, err, "nobody can say how the memory stands")
		return
	}
	for _, id := range ids {
		if state := known.of(r.op.TargetKind, id).Status.State; r.rules.display(state) != show {
			why := "the memory is " + string(cmp.Or(state, memproxy.StateUntrusted)) + " and is not given to an agent"
			r.verdict.refuse(StatusForbidden, memproxy.Reason{Code: memproxy.StateWithheld, Pointer: "target:" + id, Detail: why})
			return
		}
	}
}
