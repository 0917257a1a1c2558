package gate

import (
	"context"
	"errors"
	"sync"

	"github.com/memproxy/memproxy"
)

// bill is what an operation has reserved on the write budgets, until it is
// known how many memories it wrote. Copies of an admission share it.
type bill struct {
	charge memproxy.Charge
	paid   *memproxy.Charge // what was charged when the write was held, or nil

	mu      sync.Mutex
	closed  bool // settled or given back: a bill is paid once
	pending int  // asynchronous writes whose outcome is not known yet
	made    made
	counted map[string]bool // ids of memories that were counted
}

// made is what a write came to, in memories.
type made struct{ added, changed int64 }

// maxSettled bounds one settlement, as stores bound a charge.
const maxSettled = 1 << 20

// open reports whether there is something to settle.
func (b *bill) open() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed
}

// close reports whether the caller is the one to settle the bill.
func (b *bill) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.closed
	b.closed = true
	return !was
}

// tally counts the memories that an answer says were written. What was taken
// back again does not count; where that failed, stuck of them are there.
func tally(memories []memproxy.Memory, stuck int) made {
	n := made{added: int64(stuck)}
	for i := range memories {
		m := &memories[i]
		switch {
		case m.Drop, m.Missing, m.Uncounted, kindOf(m) != memproxy.TargetMemory, m.ID == "" && m.Text == "":
		case m.Event == eventNone, m.Event == eventDelete:
		case m.Event == eventUpdate:
			n.changed++
		default:
			n.added++
		}
	}
	return n
}

// settleBill makes the charge of a write what the write came to, as far as its
// answer tells. An answer that does not name everything charges what it names
// beyond the reservation; where nobody tells, the reservation stays.
func (ret *effects) settleBill(ctx context.Context) {
	b := ret.bill
	if b == nil || ret.reading == nil || ret.op.Kind != memproxy.Learn {
		return
	}
	n := tally(ret.reading.Memories, ret.stuck)
	if pending := len(ret.reading.Events); pending > 0 {
		b.mu.Lock()
		b.pending += pending
		b.made.added, b.made.changed = b.made.added+n.added, b.made.changed+n.changed
		b.mu.Unlock()
		return
	}
	if ret.countsLater(b) {
		return
	}
	if ret.reading.Settles {
		ret.g.settleTo(ctx, ret.Admission, n.added+n.changed, n.added)
	} else if n.added+n.changed > b.charge.Cost {
		ret.g.settleTo(ctx, ret.Admission, n.added+n.changed, max(n.added, b.charge.Cost))
	}
}

// settleLater records what became of one asynchronous write of several, and
// settles with the last.
func (ret *making) settleLater(ctx context.Context) {
	b := ret.bill
	if b == nil || ret.memories == nil { // the backend does not say
		return
	}
	n := tally(ret.memories, ret.stuck)
	b.mu.Lock()
	b.made.added, b.made.changed = b.made.added+n.added, b.made.changed+n.changed
	b.pending--
	last, n := b.pending == 0, b.made
	b.mu.Unlock()
	if last {
		ret.g.settleTo(ctx, ret.Admission, n.added+n.changed, n.added)
	}
}

// settleTo makes the charge so many memories in its windows, which count those
// that were changed as well, and so many in its totals. What was reserved in
// excess is released in the hour of the reservation; what was not reserved is
// charged in the hour in which it became known.
func (g *Gate) settleTo(ctx context.Context, a *Admission, window, total int64) {
	b := a.bill
	if !b.close() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	if b.paid != nil {
		g.settleLines(ctx, a, b.paid, "/settled/window", b.paid.Lines, window-b.paid.Cost)
	}
	if window == total {
		g.settleLines(ctx, a, &b.charge, "/settled", b.charge.Lines, total-b.charge.Cost)
		return
	}
	var windows, totals []memproxy.Line
	for _, l := range b.charge.Lines {
		if l.Window == memproxy.WindowTotal {
			totals = append(totals, l)
		} else {
			windows = append(windows, l)
		}
	}
	g.settleLines(ctx, a, &b.charge, "/settled/window", windows, window-b.charge.Cost)
	g.settleLines(ctx, a, &b.charge, "/settled/total", totals, total-b.charge.Cost)
}

func (g *Gate) settleLines(ctx context.Context, a *Admission, of *memproxy.Charge, id string, lines []memproxy.Line, difference int64) {
	if len(lines) == 0 || difference == 0 {
		return
	}
	c := *of
	c.ID, c.Lines = c.ID+id, lines
	if difference < 0 {
		c.Cost = -difference
		if err := g.opt.Budget.Release(ctx, c); err != nil {
			g.opt.Log.WarnContext(ctx, "budget not settled: too much stays charged", "decision", a.Decision.ID, "error", err)
		}
		return
	}
	c.Cost, c.Time, c.Written = min(difference, maxSettled), g.opt.Clock(), true
	allowance, err := g.opt.Budget.Charge(ctx, c)
	if err != nil {
		g.opt.Log.ErrorContext(ctx, "budget not settled: a write made more than was charged", "decision", a.Decision.ID, "error", err)
		return
	}
	g.warnOf(ctx, a, &allowance)
}

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
	if names := g.unreported(b.Name+" "+rt.ID, a.leftovers.names); len(names) > 0 {
		g.opt.Log.WarnContext(ctx, "members of a public answer that no row claims", "backend", b.Name, "route", rt.ID, "names", names,
			"passed", a.rules.Unclaimed == UnclaimedPass)
	}
	return reply, err
}
