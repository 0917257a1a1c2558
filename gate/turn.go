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

	// RunOf is the run that an event of a stream names, or "". Data is false
	// for an event that tells nothing: a comment, the end.
	RunOf(event []byte) (run string, data bool)

	// Asks reports the runs that a request is about: one that is read, or
	// those that are to be stopped.
	Asks(route memproxy.Route, req memproxy.Request, body []byte) (runs []string, reads bool)

	// Merge makes one answer about run of the answers about each of a turn's
	// runs, in their order. Over is false while the turn is under way.
	Merge(route memproxy.Route, req memproxy.Request, run string, over bool, answers [][]byte) ([]byte, error)
}

// A Prober is a Turner some of whose requests run one tool outside of a run.
// What that writes depends on which tool goes by the name.
type Prober interface {
	Turner
	// Probe returns the agent whose tool a request runs, and the side request
	// that tells what it is; false for other requests. Probed reads the answer:
	// nil for a tool of which the request says what it does, ErrUngated for
	// one that may write what nobody can say before.
	Probe(route memproxy.Route, req memproxy.Request) (agent string, q memproxy.Request, ok bool)
	Probed(route memproxy.Route, reply memproxy.Reply) error
}

// Probes returns the agent whose tool an admitted request runs, or "". Its
// tools must not change between Probe and the request.
func (a *Admission) Probes() string {
	prober, ok := a.call.Backend.Adapter.(Prober)
	if !ok || !a.enforced() {
		return ""
	}
	agent, _, _ := prober.Probe(a.call.Route, a.call.Request)
	return agent
}

// Probe asks the backend what an admitted request runs. It is ErrUngated for
// what cannot be ruled on before; any other error is breakage.
func (g *Gate) Probe(ctx context.Context, a *Admission) error {
	if a.Probes() == "" {
		return nil
	}
	if a.call.Backend.Fetch == nil {
		return memproxy.ErrUngated
	}
	prober := a.call.Backend.Adapter.(Prober)
	_, q, _ := prober.Probe(a.call.Route, a.call.Request)
	ctx, cancel := context.WithTimeout(ctx, g.opt.FetchTimeout)
	defer cancel()
	reply, err := a.call.Backend.Fetch.Fetch(ctx, q)
	if err != nil {
		return err
	}
	return prober.Probed(a.call.Route, reply)
}

// foreseeing are the steps of a tool call that leave nothing behind: who calls
// is known, and nothing is patched. Whom a call names is held to the caller's
// tenant as whom a request names is.
var foreseeing = [...]string{signal.SpanBound, signal.SpanTenancy, signal.SpanScreen, signal.SpanClamp, signal.SpanRule}

// asking are those of a call that is made next.
var asking = append(foreseeing[:], signal.SpanCharge, signal.SpanBind)

// Ask rules on a tool call of a running agent. The call is attributed to the
// principal of the admission that started the run, ruled on by the rules that
// it pinned, charged and recorded like a request of its own.
func (g *Gate) Ask(ctx context.Context, a *Admission, tc memproxy.ToolCall) *Admission {
	asked := g.ask(ctx, a, tc, func(ctx context.Context, r *run) {
		g.askSteps(ctx, r, a, tc, asking)
		g.reserve(ctx, r)
	})
	g.called(ctx, asked)
	g.discipline(ctx, asked, a.namedSession(), a.endUser())
	g.keepCall(ctx, asked, tc)
	return asked
}

// revoked reports whether the key that a run was started with was removed since,
// or given to another caller: a run can last for an hour. A token or a
// certificate is good for the run, also if it ends before.
func revoked(ctx context.Context, id Identifier, a *Admission) bool {
	if a.call.who == nil || a.Principal.Method != "key" {
		return false
	}
	p, err := id.Identify(ctx, a.call.credentials())
	return err != nil || p.ID != a.Principal.ID || p.Tenant != a.Principal.Tenant
}

// askSteps runs the named steps of admission on a tool call that admission a
// came to.
func (g *Gate) askSteps(ctx context.Context, r *run, a *Admission, tc memproxy.ToolCall, steps []string) {
	if tc.Flaw != nil {
		r.malformed(tc.Flaw)
		return
	}
	if r.op = tc.Operation; revoked(ctx, g.opt.Identifier, a) {
		r.refuse(StatusForbidden, memproxy.Reason{Code: memproxy.IdentityInvalid, Detail: "the key that started the run is no longer its caller's"})
		return
	}
	r.attribute(a.op)
	r.reserved()
	r.theirs(ctx, a.watched)
	for i := range admission {
		s := &admission[i]
		if !slices.Contains(steps, s.name) || s.idle != nil && s.idle(r) {
			continue
		}
		if err := g.step(ctx, s, r); err != nil {
			g.opt.Log.ErrorContext(ctx, "gate step failed", "step", s.name, "decision", r.Decision.ID, "error", err)
			r.refuse(StatusUnavailable, memproxy.Reason{Code: s.broken, Detail: "memproxy could not finish ruling on this call"})
		}
		if r.verdict.Stops() && r.enforced() {
			break
		}
	}
}

// Ungated rules on a run that cannot be gated call by call, by what its backend
// is set to. It reports whether the reply is to be sent; if not, the run goes
// on, and is Watched where what it writes is to be ruled on afterwards.
func (g *Gate) Ungated(ctx context.Context, a *Admission) (memproxy.Reply, bool) {
	mode := a.call.Backend.Ungated
	if _, can := a.call.Backend.Adapter.(Compensator); can && mode == UngatedCompensate && a.enforced() {
		a.watched = true
		return memproxy.Reply{}, false
	}
	return g.ungated(ctx, a, mode)
}
