package gate

import (
	"context"

	"github.com/memproxy/memproxy"
)

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
	reply, err := g.prune(ctx, a, reply)
	if names := g.unreported(b.Name+" "+rt.ID, a.leftovers.names); len(names) > 0 {
		g.opt.Log.WarnContext(ctx, "members of a public answer that no row claims", "backend", b.Name, "route", rt.ID, "names", names,
			"passed", a.rules.Unclaimed == UnclaimedPass)
	}
	return reply, err
}
