package gate

import (
	"context"
	"fmt"
	"maps"

	"github.com/memproxy/memproxy"
)

// A Pruner is a Reader that knows every member of its backend's answers.
type Pruner interface {
	Reader
	// Prune returns the answer without what no row claims. An answer that as a
	// whole is not what the route answers with is an error; the gate then
	// withholds it. Errors of the backend are pruned too, and never an error.
	Prune(memproxy.Route, memproxy.Reply) (memproxy.Pruned, error)

	// Structured reports whether a route answers with a document of members, so
	// that its answer has to be read where nothing else asks for that. Pages and
	// files are not. What the adapter does not know is: it is then withheld.
	Structured(memproxy.Route) bool

	// PruneEvent does so with one event of a stream; an empty body leaves the
	// event out.
	PruneEvent(memproxy.Route, []byte) memproxy.Pruned
}

// Unclaimed says what becomes of members of answers that no row claims.
type Unclaimed string

// The settings for unclaimed members.
const (
	// UnclaimedDrop leaves them out. It is what an empty setting means.
	UnclaimedDrop Unclaimed = "drop"
	// UnclaimedPass shows them, and counts and reports them all the same.
	UnclaimedPass Unclaimed = "pass"
)

// maxUnclaimed bounds the names that are logged of one call.
const maxUnclaimed = 8

// leftovers are what nobody claimed of one call's answers.
type leftovers struct {
	n        int
	names    []string
	filtered int // of its events
	// unreadable are elements that were left out because they cannot be read.
	unreadable int
}

// members leaves out of an answer, or of one event of a stream, what no row
// claims. It comes before every other filter: what nobody claimed, none of them
// knows.
func members(ctx context.Context, ret *answer) (refused bool, err error) {
	if ret.single {
		ret.reply.Body = ret.g.pruneEvent(ctx, ret.Admission, ret.reply.Body)
		return false, nil
	}
	ret.reply, err = ret.g.prune(ctx, ret.Admission, ret.reply)
	return false, err
}

func (g *Gate) prune(ctx context.Context, a *Admission, reply memproxy.Reply) (memproxy.Reply, error) {
	pruner, ok := a.call.Backend.Adapter.(Pruner)
	if !ok || !a.Inspect {
		return reply, nil
	}
	p, err := pruner.Prune(a.call.Route, reply)
	pass := a.rules.Unclaimed == UnclaimedPass
	switch {
	case err != nil && pass:
		g.left(ctx, a, memproxy.Pruned{Unclaimed: 1, Names: []string{"/"}})
		return reply, nil
	case err != nil:
		return reply, err
	}
	g.left(ctx, a, p)
	a.leftovers.unreadable += p.Unreadable
	switch {
	case pass && p.Unreadable > 0:
		reply.Body = p.Readable
		return reply, nil
	case pass, p.Unclaimed == 0 && p.Unreadable == 0:
		return reply, nil
	}
	reply.Body = p.Body
	if p.Type != "" {
		reply.Header = maps.Clone(reply.Header)
		reply.Header.Set("Content-Type", p.Type)
	}
	return reply, nil
}

// left counts what was left out, or would have been, of a call's answers.
func (g *Gate) left(ctx context.Context, a *Admission, p memproxy.Pruned) {
	if p.Unclaimed == 0 {
		return
	}
	a.leftovers.n += p.Unclaimed
	for _, name := range p.Names {
		if len(a.leftovers.names) < maxUnclaimed {
			a.leftovers.names = append(a.leftovers.names, name)
		}
	}
	g.opt.Meter.Unclaimed(ctx, a.call.Backend.Name, p.Unclaimed)
}

// pruneEvent prunes one event of a stream; it may be nothing then.
func (g *Gate) pruneEvent(ctx context.Context, a *Admission, event []byte) []byte {
	pruner, ok := a.call.Backend.Adapter.(Pruner)
	if !ok {
		return event
	}
	p := pruner.PruneEvent(a.call.Route, event)
	g.left(ctx, a, p)
	if a.rules.Unclaimed == UnclaimedPass {
		return event
	}
	return p.Body
}

// tellUnclaimed puts into the outcome's reasons and the log what nobody
// claimed. Names are for the log only: they are the backend's words.
func (ret *answer) tellUnclaimed(ctx context.Context) {
	u := &ret.leftovers
	if u.filtered > 0 {
		ret.filtered += u.filtered
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "what is another tenant's was left out of the answer"})
		u.filtered = 0
	}
	if u.unreadable > 0 {
		ret.filtered += u.unreadable
		ret.reasons = append(ret.reasons, memproxy.Reason{
			Code: memproxy.AnswerUnreadable, Detail: fmt.Sprintf("%d elements of the answer that cannot be read were withheld", u.unreadable),
		})
		ret.g.opt.Meter.Filtered(ctx, ret.call.Backend.Name, u.unreadable)
		u.unreadable = 0
	}
	if u.n == 0 {
		return
	}
	what := "left out"
	if ret.rules.Unclaimed == UnclaimedPass {
		what = "passed on"
	}
	ret.reasons = append(ret.reasons, memproxy.Reason{
		Code: memproxy.AnswerUnclaimed, Detail: fmt.Sprintf("%d members of the answer that no row claims were %s", u.n, what),
	})
	ret.g.opt.Log.WarnContext(ctx, "members of an answer that no row claims were "+what, "decision", ret.Decision.ID,
		"backend", ret.call.Backend.Name, "route", ret.call.Route.ID, "members", u.n, "names", u.names)
	*u = leftovers{}
}
