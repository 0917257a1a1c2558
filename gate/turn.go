package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// A Turner is an Adapter whose backend runs agents: on some routes the agent
// calls tools while the request lasts, and some tools write its memory inside
// the backend, where no proxy sees them.
type Turner interface {
	// Turn returns the run that an admitted request starts, or nil when its
	// route runs no agent. A route that runs one and cannot be made to pause
	// is memproxy.ErrUngated.
	Turn(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Turn, error)

	// Rearms returns the agent whose tools a request changes, or "".
	Rearms(route memproxy.Route) string
}

// A Chainer is a Turner whose backend knows each leg of a turn as a run of its
// own. Callers know the first; what they ask about it is answered for all.
type Chainer interface {
	Turner
	// Resume reports whether a request asks for the stream of a turn again.
	Resume(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Resumption, bool)

	// Asks reports the runs that a request is about: one that is read, or
	// those that are to be stopped.
	Asks(route memproxy.Route, req memproxy.Request, body []byte) (runs []string, reads bool)

	// Merge makes one answer about run of the answers about each of a turn's
	// runs, in their order. Over is false while the turn is under way.
	Merge(route memproxy.Route, req memproxy.Request, run string, over bool, answers [][]byte) ([]byte, error)
}

// asking are the steps of a tool call: who calls is known, and nothing is
// patched.
var asking = [...]string{signal.SpanBound, signal.SpanScreen, signal.SpanClamp, signal.SpanRule, signal.SpanCharge}

// Ask rules on a tool call of a running agent. The call is attributed to the
// principal of the admission that started the run, ruled on by the rules that
// it pinned, charged and recorded like a request of its own.
func (g *Gate) Ask(ctx context.Context, a *Admission, tc memproxy.ToolCall) *Admission {
	c := *a.call
	c.Route = memproxy.Route{ID: a.call.Route.ID + "/" + tc.Tool, Kind: memproxy.Run}
	c.Body = tc.Arguments
	if tc.Operation != nil {
		c.Route.Kind = tc.Operation.Kind
	}
	r := g.begin(&c)
	r.Principal, r.rules = a.Principal, a.rules
	r.Decision.Policy = a.rules.Version
	ctx, span := g.opt.Tracer.Start(ctx, signal.SpanAsk)
	defer span.End()
	switch {
	case tc.Flaw != nil:
		r.malformed(tc.Flaw)
	default:
		tc.Operation.Backend = c.Backend.Name
		r.op = tc.Operation
		g.askSteps(ctx, r)
	}
	r.settle()
	g.record(ctx, r)
	span.SetAttributes(r.Attributes(nil)...)
	return r.Admission
}

func (g *Gate) askSteps(ctx context.Context, r *run) {
	for i := range admission {
		s := &admission[i]
		if !slices.Contains(asking[:], s.name) || s.idle != nil && s.idle(r) {
			continue
		}
		if err := g.step(ctx, s, r); err != nil {
			g.opt.Log.ErrorContext(ctx, "gate step failed", "step", s.name, "decision", r.Decision.ID, "error", err)
			r.refuse(StatusUnavailable, memproxy.Reason{Code: s.broken, Detail: "memproxy could not finish ruling on this call"})
		}
		if r.verdict.Stops() && r.rules.Enforce {
			return
		}
	}
}

// Ungated rules on a run that cannot be gated call by call: refused in
// production and where the rules are enforced, let through and noted
// elsewhere. It reports whether the reply is to be sent.
func (g *Gate) Ungated(ctx context.Context, a *Admission) (memproxy.Reply, bool) {
	ret := &returning{Admission: a, g: g}
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.RunUngated, Detail: memproxy.ErrUngated.Error()})
	if !a.rules.Enforce || a.rules.Profile == Development {
		if err := g.opt.Recorder.Note(ret.ungated()); err != nil {
			g.opt.Log.ErrorContext(ctx, "audit note lost", "decision", a.Decision.ID, "error", err)
		}
		return memproxy.Reply{}, false
	}
	ret.reasons = nil
	ret.refuse(StatusForbidden, memproxy.RunUngated, memproxy.ErrUngated.Error())
	ret.status = 0
	g.outcome(ctx, ret)
	return ret.reply, true
}

// ungated is the note of a run that was let through ungated.
func (ret *returning) ungated() memproxy.Event {
	ev := ret.event
	ev.Type, ev.Time, ev.Reasons = memproxy.EventOutcome, ret.g.opt.Clock(), ret.reasons
	ev.Budget, ev.ContentSHA256 = nil, ""
	return ev
}
