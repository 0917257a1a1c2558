package gate

import (
	"context"
	"errors"

	"github.com/memproxy/memproxy"
)

// A Next is what is left to do with a call that was ruled on: Reply, Forward,
// RunAgent, Rearm, Probe or Resume. Each listener obeys it in one switch.
type Next interface{ next() }

type (
	// Reply is the whole answer: nothing is forwarded.
	Reply struct{ memproxy.Reply }
	// Forward sends Body and Query of the admission, and gives the answer to
	// Return.
	Forward struct{}
	// RunAgent takes an agent's run through its turn, asking about each tool call.
	RunAgent struct{ Turn memproxy.Turn }
	// Rearm forwards a request that changes the tools of an agent, while no turn
	// of the agent is under way: a tool that came in between would write without
	// a pause.
	Rearm struct{ Agent string }
	// Probe forwards a request that runs one of an agent's tools, once Gate.Probe
	// found out which. The agent's tools must not change in between.
	Probe struct {
		Agent string
		ask   memproxy.Request
	}
	// Resume sends the stream of a turn again, whose run the gate has seen to be
	// the caller's. Where the listener has no such turn, Gate.Untraced is asked and
	// Else is next.
	Resume struct {
		memproxy.Resumption
		Else Next
	}
)

func (Reply) next()    {}
func (Forward) next()  {}
func (RunAgent) next() {}
func (Rearm) next()    {}
func (Probe) next()    {}
func (Resume) next()   {}

// plain: the call is answered, or its backend runs no agents.
func plain(r *run) bool {
	_, ok := r.call.Backend.Adapter.(Turner)
	return !ok || r.op == nil || r.call.Passed || !r.enforced() || r.Reply != nil
}

// next asks the adapter what an admitted request makes an agent do. A run that
// cannot be paused is ruled on by what its backend is set to.
func next(ctx context.Context, r *run) error {
	turner, c := r.call.Backend.Adapter.(Turner), r.call
	if r.op.Kind == memproxy.Run {
		turn, err := turner.Turn(c.Route, c.Request, r.Body)
		switch {
		case errors.Is(err, memproxy.ErrUngated):
			if reply, refused := r.g.Agents().Ungated(ctx, r.Admission); refused {
				r.Reply = &reply
				return nil
			}
		case err != nil:
			return err
		case turn != nil:
			r.Next = RunAgent{turn}
		}
	}
	if prober, ok := turner.(Prober); ok && r.Next == nil {
		if agent, q, ok := prober.Probe(c.Route, c.Request); ok && agent != "" {
			r.Next = Probe{agent, q}
		}
	}
	if agent := turner.Rearms(c.Route); agent != "" && r.Next == nil {
		r.Next = Rearm{agent}
	}
	if chainer, ok := turner.(Chainer); ok {
		if q, ok := chainer.Resume(c.Route, c.Request, r.Body); ok {
			r.Next = Resume{q, r.onward()}
		}
	}
	return nil
}

// onward is what is next, with the default.
func (a *Admission) onward() Next {
	switch {
	case a.Reply != nil:
		return Reply{*a.Reply}
	case a.Next == nil:
		return Forward{}
	}
	return a.Next
}

// structured reports whether a route answers with members that are to be
// claimed one by one.
func (b *Backend) structured(rt memproxy.Route) bool {
	pruner, ok := b.Adapter.(Pruner)
	return ok && pruner.Structured(rt)
}

// closed reports whether what no row claims is left out of the backend's answers.
func (b *Backend) closed(r *Rules) bool {
	_, ok := b.Adapter.(Pruner)
	return ok && r.Unclaimed != UnclaimedPass
}

// InspectsPublic reports whether the answer of a public route must be read
// before it is passed on, and then goes through Public. Pages and files stream;
// byStatus says that of their errors the status alone is passed on.
func (g *Gate) InspectsPublic(b Backend, rt memproxy.Route) (inspect, byStatus bool) {
	r := g.rules.Load()
	inspect = r.Enforce && b.structured(rt)
	return inspect, r.Enforce && !inspect && b.closed(r)
}

// Public leaves out of a public route's answer what no row claims. Nobody is
// identified there, so there is no record: what is left out is counted, and each
// name is logged once. An error says that the answer cannot be read; it must not
// be passed on.
func (g *Gate) Public(ctx context.Context, b Backend, rt memproxy.Route, reply memproxy.Reply) (memproxy.Reply, error) {
	a := &Admission{Inspect: true, call: &Call{Backend: b, Route: rt}, rules: g.rules.Load()}
	reply, err := prune(ctx, g, a, reply)
	if names := g.reported.fresh(b.Name+" "+rt.ID, a.leftovers.names); len(names) > 0 {
		g.opt.Log.WarnContext(ctx, "members of a public answer that no row claims", "backend", b.Name, "route", rt.ID, "names", names,
			"passed", a.rules.Unclaimed == UnclaimedPass)
	}
	return reply, err
}
