package gate

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

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
		ret.g.accounts.settleTo(ctx, ret.Admission, n.added+n.changed, n.added)
	} else if n.added+n.changed > b.charge.Cost {
		ret.g.accounts.settleTo(ctx, ret.Admission, n.added+n.changed, max(n.added, b.charge.Cost))
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
		ret.g.accounts.settleTo(ctx, ret.Admission, n.added+n.changed, n.added)
	}
}

// A Counter is a Reader whose backend tells after some writes how many memories
// they came to, if it is asked: a document that it takes apart, an agent that is
// made of a file.
type Counter interface {
	Reader
	// Counts returns the requests that ask what came of a write, by the ids that
	// its answer names; none where the answer says it, or nothing would.
	Counts(route memproxy.Route, req memproxy.Request, op *memproxy.Operation, ids []string) []memproxy.Request

	// Counted reads the answer to one of them: the memories that have ids, how
	// many there are besides, and whether there will be no more.
	Counted(memproxy.Reply) (ids []string, more int64, over bool, err error)
}

// countsLater reports whether the bill waits until the backend was asked what
// it made of the write. The face asks, as for what a model makes of one.
func (ret *effects) countsLater(b *bill) bool {
	counter, ok := ret.call.Backend.Adapter.(Counter)
	if !ok || ret.reading.Settles || !ret.enforced() {
		return false
	}
	var ids []string
	for i := range ret.reading.Memories {
		if id := ret.reading.Memories[i].ID; id != "" {
			ids = append(ids, id)
		}
	}
	ret.counting = counter.Counts(ret.call.Route, ret.call.Request, ret.op, ids)
	b.mu.Lock()
	b.pending += len(ret.counting)
	b.mu.Unlock()
	return len(ret.counting) > 0
}

// accounts keep the write budgets to what was written: they give back what nothing was
// written for, and settle what a write came to.
type accounts struct {
	budget  Budget
	notes   notes
	clock   func() time.Time
	timeout time.Duration // of a settlement
	log     *slog.Logger
}

// release gives a charge back that nothing was written for.
func (acc *accounts) release(ctx context.Context, a *Admission) {
	if a.bill == nil || !a.bill.close() || len(a.bill.charge.Lines) == 0 {
		return
	}
	if err := acc.budget.Release(ctx, a.bill.charge); err != nil {
		acc.log.WarnContext(ctx, "budget not released", "decision", a.Decision.ID, "error", err)
	}
}

// repay gives the authors of deleted memories their totals back.
func (acc *accounts) repay(ctx context.Context, a *Admission, deleted []memproxy.Ownership) {
	counts := map[memproxy.Tally]int64{}
	for _, row := range deleted {
		if row.Actor != "" && row.Kind == memproxy.TargetMemory && !row.Deleted {
			counts[memproxy.Tally{Actor: row.Actor, Tenant: row.Scope.Tenant, Trust: row.Trust, User: row.Scope.User}]++
		}
	}
	for who, n := range counts {
		who.Memories = n
		acc.lower(ctx, a, who)
	}
}

// lower lowers one author's totals.
func (acc *accounts) lower(ctx context.Context, a *Admission, who memproxy.Tally) {
	p := memproxy.Principal{ID: who.Actor, Tenant: who.Tenant, Trust: who.Trust}
	lines := slices.DeleteFunc(a.rules.Lines(p, memproxy.Learn, who.User, nil), func(l memproxy.Line) bool {
		return l.Window != memproxy.WindowTotal
	})
	if len(lines) == 0 {
		return
	}
	c := memproxy.Charge{ID: a.Decision.ID + "/" + string(who.Trust) + "/" + who.Tenant + "/" + who.Actor + "/" + memproxy.Inert(who.User), Tenant: who.Tenant, Cost: who.Memories, Lines: lines, Time: a.begun}
	if err := acc.budget.Release(ctx, c); err != nil {
		acc.log.WarnContext(ctx, "total not lowered after a deletion", "decision", a.Decision.ID, "error", err)
	}
}

// budgetEvents notes what the charge set off.
func (acc *accounts) budgetEvents(ctx context.Context, a *Admission) {
	al := a.Decision.Allowance
	if al == nil {
		return
	}
	if !al.Granted {
		acc.note(ctx, a, memproxy.EventBudgetExceeded, al)
	}
	acc.warnOf(ctx, a, al)
}

// warnOf notes the lines that a charge took past their mark.
func (acc *accounts) warnOf(ctx context.Context, a *Admission, al *memproxy.Allowance) {
	for _, l := range al.Lines {
		switch {
		case !l.Warn:
		case l.Soft:
			acc.note(ctx, a, memproxy.EventRapidWrites, al)
		default:
			acc.note(ctx, a, memproxy.EventBudgetWarning, al)
		}
	}
}

func (acc *accounts) note(ctx context.Context, a *Admission, t memproxy.EventType, al *memproxy.Allowance) {
	ev := following(&a.event, t, a.event.Time)
	ev.Budget, ev.Degraded, ev.Targets, ev.Fields = al.Lines, al.Degraded, nil, nil
	acc.notes.add(ctx, ev)
}

// settleTo makes the charge so many memories in its windows, which count those
// that were changed as well, and so many in its totals. What was reserved in
// excess is released in the hour of the reservation; what was not reserved is
// charged in the hour in which it became known.
func (acc *accounts) settleTo(ctx context.Context, a *Admission, window, total int64) {
	b := a.bill
	if !b.close() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acc.timeout)
	defer cancel()
	if b.paid != nil {
		acc.settleLines(ctx, a, b.paid, "/settled/window", b.paid.Lines, window-b.paid.Cost)
	}
	if window == total {
		acc.settleLines(ctx, a, &b.charge, "/settled", b.charge.Lines, total-b.charge.Cost)
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
	acc.settleLines(ctx, a, &b.charge, "/settled/window", windows, window-b.charge.Cost)
	acc.settleLines(ctx, a, &b.charge, "/settled/total", totals, total-b.charge.Cost)
}

func (acc *accounts) settleLines(ctx context.Context, a *Admission, of *memproxy.Charge, id string, lines []memproxy.Line, difference int64) {
	if len(lines) == 0 || difference == 0 {
		return
	}
	c := *of
	c.ID, c.Lines = c.ID+id, lines
	if difference < 0 {
		c.Cost = -difference
		if err := acc.budget.Release(ctx, c); err != nil {
			acc.log.WarnContext(ctx, "budget not settled: too much stays charged", "decision", a.Decision.ID, "error", err)
		}
		return
	}
	c.Cost, c.Time, c.Written = min(difference, maxSettled), acc.clock(), true
	allowance, err := acc.budget.Charge(ctx, c)
	if err != nil {
		acc.log.ErrorContext(ctx, "budget not settled: a write made more than was charged", "decision", a.Decision.ID, "error", err)
		return
	}
	acc.warnOf(ctx, a, &allowance)
}

// counted takes the answer to a request of Counts, and settles with the last.
func (acc *accounts) counted(ctx context.Context, a *Admission, counter Counter, reply memproxy.Reply) (over bool) {
	if reply.Status == StatusNotFound {
		reply = memproxy.Reply{Status: reply.Status} // it is gone already: nothing is left of it
	} else if !ok2xx(reply.Status) {
		return false
	}
	ids, more, over, err := counter.Counted(reply)
	if err != nil {
		acc.log.WarnContext(ctx, "what a write came to cannot be read; it stays charged as estimated", "decision", a.Decision.ID, "error", err)
		return true
	}
	if !over {
		return false
	}
	b := a.bill
	b.mu.Lock()
	for _, id := range ids {
		if b.counted == nil {
			b.counted = map[string]bool{}
		}
		if !b.counted[id] {
			b.counted[id] = true
			b.made.added++
		}
	}
	b.made.added += more
	b.pending--
	last, n := b.pending == 0, b.made.added
	b.mu.Unlock()
	if last {
		acc.settleTo(ctx, a, n, n)
	}
	return true
}
