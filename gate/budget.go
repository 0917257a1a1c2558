package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/gate/verdict"
)

// charge charges the write budgets. A held write is charged too, because a person has
// to review it: its hourly lines when it is held, whether or not it is approved, and its
// total lines when it is approved and sent, once for all attempts.
func charge(ctx context.Context, r *evaluation) error {
	c := chargeFor(r)
	var held *memproxy.Charge
	if cost := r.heldContent.Reserved; cost > 0 {
		held = &memproxy.Charge{ID: r.heldWrite.ID, Tenant: r.heldWrite.Tenant, Cost: cost, Time: r.heldWrite.Created}
	}
	switch {
	case r.storesHold():
		c.Lines, _ = splitLines(c.Lines)
	case held != nil && r.heldWrite.Result.SentBefore: // the attempt whose outcome was unknown was charged
		held.Lines, c.Lines = c.Lines, nil
	case held != nil:
		c.ID += "/approved/" + r.g.opt.NewID() // one for each attempt: a failed one is released
		held.Lines, c.Lines = splitLines(c.Lines)
	}
	if len(c.Lines) == 0 || r.dry() {
		if len(c.Lines) > 0 || held != nil {
			r.bill = &bill{charge: c, heldCharge: held}
		}
		return nil
	}
	allowance, err := r.g.opt.Budget.Charge(ctx, c)
	if err != nil {
		return err
	}
	r.Decision.Allowance = &allowance
	if allowance.Granted {
		r.bill = &bill{charge: c, heldCharge: held}
	} else {
		overBudget(r, &allowance)
	}
	return nil
}

// splitLines separates budget lines with a time window from those of totals.
func splitLines(all []memproxy.Line) (windows, totals []memproxy.Line) {
	return verdict.Split(all, func(l memproxy.Line) bool { return l.Window != memproxy.WindowTotal })
}

// chargeFor returns the charge for the write. Its lines are determined once for each form.
func chargeFor(r *evaluation) memproxy.Charge {
	if r.linesFor != r.op {
		r.linesFor, r.lines = r.op, r.rules.Lines(r.Principal, r.op.Kind, r.endUser(), content.Governed(r.op))
	}
	return memproxy.Charge{ID: r.Decision.ID, Tenant: r.Principal.Tenant, Cost: int64(r.op.Cost), Time: r.begun, Lines: r.lines}
}

// refuseOverdrawn refuses a write before it is screened if the budgets would refuse it,
// because screening is the most expensive step. It charges nothing. Totals count too,
// although a held write is charged to them only when it is approved.
func refuseOverdrawn(ctx context.Context, r *evaluation) error {
	if r.dry() || r.polledHold != nil || !r.enforced() || !costs(r) {
		return nil
	}
	c := chargeFor(r)
	c.Peek = true
	if len(c.Lines) == 0 {
		return nil
	}
	allowance, err := r.g.opt.Budget.Charge(ctx, c)
	if err == nil && !allowance.Granted {
		r.Decision.Allowance = &allowance
		overBudget(r, &allowance)
	}
	return err
}

func overBudget(r *evaluation, allowance *memproxy.Allowance) {
	reason := memproxy.Reason{Code: memproxy.BudgetHour, Detail: "the write budget is used up"}
	if i := allowance.Refused; i >= 0 && i < len(allowance.Lines) {
		l := &allowance.Lines[i]
		reason.Code, reason.Rule, reason.Detail = l.Reason, l.Key, limits.UsedUp(&r.Principal, l, r.op.Cost, allowance.Degraded)
	}
	r.verdict.Refuse(memproxy.StatusTooMany, reason)
	if allowance.Degraded {
		r.verdict.Reasons = append(r.verdict.Reasons, memproxy.Reason{Code: memproxy.BudgetDegraded, Detail: "the shared budget store is unavailable; a local share applies"})
	}
}

// bill is an operation's reservation on the write budgets until it is known how many
// memories it wrote. Copies of an admission share it.
type bill struct {
	charge     memproxy.Charge
	heldCharge *memproxy.Charge // the charge made when the write was held, or nil

	// bound is set if the write bound owners to its tenant. No other tenant could use them
	// meanwhile, so the write counts as at least one memory of the hour, whatever it makes.
	bound bool

	mu      sync.Mutex
	closed  bool // settled or released: a bill is settled once
	pending int  // asynchronous writes without an outcome yet
	made    made
	counted map[[2]string]bool // memories already counted, by event and id
}

// made counts the memories that a write added and changed.
type made struct{ added, changed int64 }

// maxSettled bounds one settlement, as stores bound a charge.
const maxSettled = 1 << 20

func (b *bill) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed
}

// close closes the bill. It reports whether it was open, so that one caller settles it.
func (b *bill) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.closed
	b.closed = true
	return !was
}

// count adds n to the result, and pending to the number of pending asynchronous writes.
// It reports whether none is pending any more, and the sum so far.
func (b *bill) count(n made, pending int) (last bool, all made) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made.added, b.made.changed, b.pending = b.made.added+n.added, b.made.changed+n.changed, b.pending+pending
	return b.pending == 0, b.made
}

// firstMention reports whether no earlier answer named the memory with this event.
func (b *bill) firstMention(event, id string) bool {
	if b.counted == nil {
		b.counted = map[[2]string]bool{}
	}
	seen := id != "" && b.counted[[2]string{event, id}]
	b.counted[[2]string{event, id}] = true
	return !seen
}

// tally counts the memories that an answer reports as written, unless an earlier
// answer did: a write may be answered with its memories and with a receipt that
// repeats them. Memories that were retracted do not count; stuck is the number whose
// retraction failed, which remain in the backend.
func (b *bill) tally(memories []memproxy.Memory, stuck int) made {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := made{added: int64(stuck)}
	for i := range memories {
		m := &memories[i]
		switch {
		case m.Drop, m.Missing, m.Uncounted, m.TargetKind() != memproxy.TargetMemory, m.ID == "" && m.Text == "":
		case m.Event == memproxy.MemoryUnchanged, m.Event == memproxy.MemoryDeleted:
		case m.Event == memproxy.MemoryUpdated:
			if b.firstMention(memproxy.MemoryUpdated, m.ID) {
				n.changed++
			}
		case b.firstMention(memproxy.MemoryAdded, m.ID):
			n.added++
		}
	}
	return n
}

// settleBill adjusts the charge to what the write made, as far as the answer
// reports it. An answer that is not a complete list is charged for what it names
// beyond the reservation; without any report the reservation remains.
func (ret *effects) settleBill(ctx context.Context) {
	b := ret.bill
	if b == nil || ret.reading == nil || ret.op.Kind != memproxy.Learn {
		return
	}
	n := b.tally(ret.reading.Memories, ret.notRetracted)
	if pending := len(ret.reading.Events); pending > 0 && !ret.reading.Settles {
		b.count(n, pending)
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

// settleLater records the outcome of one of several asynchronous writes, and
// settles the bill with the last.
func (ret *extraction) settleLater(ctx context.Context) {
	b := ret.bill
	if b == nil || ret.memories == nil { // the backend does not report any
		return
	}
	n := b.tally(ret.memories, ret.notRetracted)
	n.added, n.changed = n.added-ret.deletedEarly, n.changed+ret.deletedEarly // what was deleted counts in the hour only
	if last, n := b.count(n, -1); last {
		ret.g.accounts.settleTo(ctx, ret.Admission, n.added+n.changed, n.added)
	}
}

// countsLater prepares the requests that ask the backend how many memories the write
// made, and reports whether there are any. The listener sends them, as it does for
// asynchronous extraction, and the bill is settled by their answers.
func (ret *effects) countsLater(b *bill) bool {
	counter, ok := ret.call.Backend.Adapter.(backend.AgentRunner)
	if !ok || ret.reading.Settles || !ret.enforced() {
		return false
	}
	ids := slices.DeleteFunc(idsOfAll(ret.reading.Memories), func(id string) bool { return id == "" })
	ret.countRequests = counter.Counts(ret.call.Route, ret.call.Request, ids)
	b.count(made{}, len(ret.countRequests))
	return len(ret.countRequests) > 0
}

// accounts settles the charges of writes by what they made, and notes in the audit log
// what follows from decisions.
type accounts struct{ opt *Options }

// afterwards returns the context of a settlement: it must be made even if the caller has
// disconnected, and a store that hangs must not delay the answer for longer.
func (acc *accounts) afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), acc.opt.StoreTimeout)
}

// release credits the charge of a write that made nothing, and releases the names that it
// bound. In shadow mode the write may still be sent, so its names stay bound.
func (acc *accounts) release(ctx context.Context, a *Admission) {
	if a.enforced() {
		acc.unbind(ctx, a)
	}
	if a.bill != nil && a.bill.bound {
		acc.settleTo(ctx, a, 0, 0)
		return
	}
	if a.bill == nil || !a.bill.close() || len(a.bill.charge.Lines) == 0 {
		return
	}
	ctx, cancel := acc.afterwards(ctx)
	defer cancel()
	if err := acc.opt.Budget.Release(ctx, a.bill.charge); err != nil {
		acc.opt.Log.WarnContext(ctx, "budget not released", "decision", a.Decision.ID, "error", err)
	}
}

// unbind releases the names that a write was the first to use, except for those that
// another operation has bound since. Nothing was written under them.
func (acc *accounts) unbind(ctx context.Context, a *Admission) {
	for _, row := range a.boundNames {
		gone := row
		gone.Deleted = true
		err := acc.opt.Ledger.Commit(context.WithoutCancel(ctx), memproxy.Entry{ExpectedOwners: []memproxy.Ownership{row}, Owners: []memproxy.Ownership{gone}})
		if err != nil && !errors.Is(err, memproxy.ErrStale) {
			acc.opt.Log.WarnContext(ctx, "name not released: it stays this tenant's", "decision", a.Decision.ID, "error", err)
		}
	}
	a.boundNames = nil
}

// creditAuthors credits the total lines of the authors of deleted memories, and those of the
// fields that they were written to, once for each memory. Several answers to one write can
// report deletions, so the credits are told apart by the first memory.
func (acc *accounts) creditAuthors(ctx context.Context, a *Admission, deleted []memproxy.Ownership) {
	counts, first, paid := map[memproxy.AuthorCount]int64{}, map[memproxy.AuthorCount]string{}, map[string]bool{}
	for i := range deleted {
		if row := &deleted[i]; CountsInTotals(row) && !paid[row.ID] {
			paid[row.ID] = true
			who := AuthorCountOf(ctx, acc.opt.Ledger, row)
			counts[who]++
			first[who] = cmp.Or(first[who], row.ID)
		}
	}
	for who, n := range counts {
		id := a.Decision.ID + "/" + first[who]
		who.Memories = n
		acc.creditTotals(ctx, a, id, who)
	}
}

func (acc *accounts) creditTotals(ctx context.Context, a *Admission, id string, who memproxy.AuthorCount) {
	ctx, cancel := acc.afterwards(ctx)
	defer cancel()
	if err := CreditTotals(ctx, acc.opt.Budget, a.rules, id, a.begun, who); err != nil {
		acc.opt.Log.WarnContext(ctx, "total not lowered after a deletion", "decision", a.Decision.ID, "error", err)
	}
}

// CountsInTotals reports whether a memory counts in totals.
func CountsInTotals(row *memproxy.Ownership) bool {
	return row.Actor != "" && row.Kind == memproxy.TargetMemory && !row.Deleted
}

// AuthorCountOf returns the author and the field in whose totals a memory counts. The
// field is the one that the memory was first written to, because that one was charged. A
// memory that was moved must not lower the total of its new field.
func AuthorCountOf(ctx context.Context, ledger Ledger, row *memproxy.Ownership) memproxy.AuthorCount {
	who := memproxy.AuthorCount{Actor: row.Actor, Tenant: row.Scope.Tenant, Trust: row.Trust, User: row.Scope.User}
	first, err := ledger.History(ctx, row.Key(), 2, 1)
	if err == nil && len(first) == 1 && first[0].Op != memproxy.OpSeal {
		who.Field = memproxy.Key(first[0].Field)
	}
	return who
}

// CreditTotals credits the totals of an author whose memories were deleted, and of the
// field that they were written to. It is idempotent by id.
func CreditTotals(ctx context.Context, b Budget, rules *Rules, id string, at time.Time, who memproxy.AuthorCount) error {
	author := memproxy.Principal{ID: who.Actor, Tenant: who.Tenant, Trust: who.Trust}
	_, lines := splitLines(rules.Lines(author, memproxy.Learn, who.User, []string{who.Field}))
	if len(lines) == 0 {
		return nil
	}
	id += "/" + string(who.Trust) + "/" + who.Tenant + "/" + who.Actor + "/" + memproxy.Inert(who.User)
	if who.Field != "" {
		id += "/" + who.Field
	}
	return b.Release(ctx, memproxy.Charge{ID: id, Tenant: who.Tenant, Cost: who.Memories, Lines: lines, Time: at})
}

// settleTo adjusts the charge to the given numbers of memories: window in the hourly
// lines, which also count changed memories, and total in the totals. An excess is
// released in the hour of the reservation. A shortfall is charged in the hour in which
// it became known.
func (acc *accounts) settleTo(ctx context.Context, a *Admission, window, total int64) {
	b := a.bill
	if !b.close() {
		return
	}
	if b.bound {
		window = max(window, 1)
	}
	settle := func(c *memproxy.Charge) {
		windows, totals := splitLines(c.Lines)
		acc.settleLines(ctx, a, c, "/settled/window", windows, window-c.Cost)
		acc.settleLines(ctx, a, c, "/settled/total", totals, total-c.Cost)
	}
	if b.heldCharge != nil {
		settle(b.heldCharge)
	}
	if window == total {
		acc.settleLines(ctx, a, &b.charge, "/settled", b.charge.Lines, total-b.charge.Cost)
		return
	}
	settle(&b.charge)
}

func (acc *accounts) settleLines(ctx context.Context, a *Admission, of *memproxy.Charge, id string, lines []memproxy.Line, difference int64) {
	if len(lines) == 0 || difference == 0 {
		return
	}
	ctx, cancel := acc.afterwards(ctx)
	defer cancel()
	c := *of
	c.ID, c.Lines = c.ID+id, lines
	if difference < 0 {
		c.Cost = -difference
		if err := acc.opt.Budget.Release(ctx, c); err != nil {
			acc.opt.Log.WarnContext(ctx, "budget not settled: the charge is too high", "decision", a.Decision.ID, "error", err)
		}
		return
	}
	c.Cost, c.Time, c.Written = min(difference, maxSettled), acc.opt.Clock(), true
	allowance, err := acc.opt.Budget.Charge(ctx, c)
	if err != nil {
		acc.opt.Log.ErrorContext(ctx, "budget not settled: a write made more than was charged", "decision", a.Decision.ID, "error", err)
		return
	}
	acc.recordWarnings(ctx, a, &allowance)
}
