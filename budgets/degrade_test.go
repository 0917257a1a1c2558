package budgets_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var errAway = errors.New("away")

// remote is a shared store whose failures the test controls.
type remote struct {
	*budgets.Memory
	mu    sync.Mutex
	fail  func(context.Context) error // nil: healthy
	calls int
	told  chan memproxy.Charge // charges and releases that arrived
}

func (r *remote) set(fail func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = fail
}

func (r *remote) enter(ctx context.Context) error {
	r.mu.Lock()
	r.calls++
	fail := r.fail
	r.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(ctx)
}

func (r *remote) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func (r *remote) Charge(ctx context.Context, c memproxy.Charge) (memproxy.Allowance, error) {
	if err := r.enter(ctx); err != nil {
		return memproxy.Allowance{}, err
	}
	a, err := r.Memory.Charge(ctx, c)
	r.told <- c
	return a, err
}

func (r *remote) Release(ctx context.Context, c memproxy.Charge) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	err := r.Memory.Release(ctx, c)
	r.told <- c
	return err
}

func down(context.Context) error { return errAway }

// hung waits for its deadline, like a server that accepts and never answers.
func hung(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// rig is a Degrading store over a remote.
type rig struct {
	*budgettest.Clock
	t       *testing.T
	d       *budgets.Degrading
	remote  *remote
	mu      sync.Mutex
	changes []error
	news    chan error // the same, for tests that wait
	n       int
}

// share is the share of a limit while the shared store is unavailable.
const share memproxy.PerMille = 250

func newRig(t *testing.T, fail func(context.Context) error) *rig {
	r := &rig{t: t, Clock: budgettest.NewClock(), remote: &remote{Memory: open(t, ""), fail: fail, told: make(chan memproxy.Charge, 1000)}, news: make(chan error, 1000)}
	r.d = budgets.NewDegrading(budgets.DegradingOptions{
		Shared: r.remote, Share: share, Local: open(t, ""), Deadline: 20 * time.Millisecond, Clock: r.Now,
		Changed: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.changes = append(r.changes, err)
			r.news <- err
		},
	})
	return r
}

func line(limit int64) memproxy.Line {
	return memproxy.Line{Reason: memproxy.BudgetHour, Key: "principal/a", Window: memproxy.WindowHour, Limit: limit}
}

func (r *rig) ask(cost, limit int64) memproxy.Charge {
	r.n++
	return memproxy.Charge{ID: fmt.Sprintf("d%d", r.n), Tenant: "acme", Cost: cost, Time: r.Now(), Lines: []memproxy.Line{line(limit)}}
}

func (r *rig) charge(c memproxy.Charge, granted, degraded bool) memproxy.Allowance {
	r.t.Helper()
	a, err := r.d.Charge(r.t.Context(), c)
	if err != nil || a.Granted != granted || a.Degraded != degraded {
		r.t.Fatalf("%s: granted %v, degraded %v, %v; want granted %v, degraded %v", c.ID, a.Granted, a.Degraded, err, granted, degraded)
	}
	return a
}

// changed counts how often the store became unavailable and available.
func (r *rig) changed() (away, back int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.changes {
		if err != nil {
			away++
		} else {
			back++
		}
	}
	return away, back
}

// arrived waits for n charges or releases at the remote and returns their ids, sorted.
func (r *rig) arrived(n int) []string {
	r.t.Helper()
	var ids []string
	for range n {
		ids = append(ids, (<-r.remote.told).ID)
	}
	slices.Sort(ids)
	return ids
}

// Proves CARD-4: with a healthy shared store, Degrading passes the contract.
func TestDegradingKeepsTheContract(t *testing.T) {
	budgettest.Run(t, func(t *testing.T, clock *budgettest.Clock) budgets.Store {
		return budgets.NewDegrading(budgets.DegradingOptions{Shared: open(t, ""), Local: open(t, ""), Share: share, Deadline: time.Second, Clock: clock.Now, Changed: func(error) {}})
	})
}

// Proves CARD-4, TRL-6: with the shared store down from the start, the local share
// decides and the store is not called; once it is up, it is used without a restart, and
// interim charges are replayed to it.
func TestAwayAtTheStartAndBack(t *testing.T) {
	r := newRig(t, down)
	a := r.charge(r.ask(1, 10), true, true) // a quarter of 10 is 2
	expect.Equal(t, a.Lines[0].Limit, 2, "the share is shown as", a.Lines[0])
	expect.Equal(t, a.Lines[0].Remaining(), 1, "the share is shown as", a.Lines[0])
	r.charge(r.ask(1, 10), true, true)
	no := r.charge(r.ask(1, 10), false, true)
	if no.Refused != 0 || no.Lines[0].Remaining() != 0 || no.RetryAfter(r.Now()) < 1 {
		t.Errorf("refusal %+v", no)
	}
	expect.Equal(t, r.remote.count(), 1, "the shared store was asked")
	if !r.d.Degraded() {
		t.Error("not degraded")
	}

	r.remote.set(nil)
	r.charge(r.ask(1, 10), false, true) // not yet
	r.Advance(time.Second)
	r.charge(r.ask(5, 10), true, false)
	expect.List(t, r.arrived(3), []string{"d1", "d2", "d5"}, "the shared store was told")
	r.charge(r.ask(4, 10), false, false) // 7 of 10 are used
	r.charge(r.ask(3, 10), true, false)
	if away, back := r.changed(); away != 1 || back != 1 {
		t.Errorf("away %d times, back %d times", away, back)
	}
}

// A store that hangs costs each caller at most Degrading's own deadline: a caller with
// a longer one waits no longer, and one that disconnects does not mark the store as
// failed.
func TestDegradingHasItsOwnDeadline(t *testing.T) { synctest.Test(t, degradingHasItsOwnDeadline) }

func degradingHasItsOwnDeadline(t *testing.T) {
	r := newRig(t, func(ctx context.Context) error {
		at, ok := ctx.Deadline()
		if want := time.Now().Add(20 * time.Millisecond); !ok || !at.Equal(want) {
			t.Errorf("deadline %v, %v; want %v", at, ok, want)
		}
		return nil
	})
	r.charge(r.ask(1, 10), true, false)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r.remote.set(func(ctx context.Context) error { return ctx.Err() })
	if a, err := r.d.Charge(gone, r.ask(1, 10)); err != nil || a.Degraded {
		t.Errorf("a caller who hung up: %+v, %v", a, err)
	}
	r.remote.set(hung)
	r.charge(r.ask(1, 10), true, true)
	r.charge(r.ask(1, 10), true, true) // from the share, at once
	expect.Equal(t, r.remote.count(), 3, "asked")
}

// While one call probes the shared store, others use the share.
func TestOneCallProbes(t *testing.T) {
	r := newRig(t, down)
	r.charge(r.ask(1, 1000), true, true)
	r.Advance(time.Second)

	trying, answer := make(chan struct{}), make(chan error)
	r.remote.set(func(context.Context) error {
		trying <- struct{}{} // a second probe would block here
		return <-answer
	})
	probe := make(chan memproxy.Allowance)
	first := r.ask(1, 1000)
	go func() {
		a, _ := r.d.Charge(context.Background(), first)
		probe <- a
	}()
	<-trying
	before := r.remote.count()
	var wg sync.WaitGroup
	for i := range 64 {
		c := r.ask(1, 1000)
		c.ID = fmt.Sprintf("crowd-%d", i)
		wg.Go(func() {
			if a, err := r.d.Charge(context.Background(), c); err != nil || !a.Granted || !a.Degraded {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	wg.Wait()
	if n := r.remote.count(); n != before {
		t.Errorf("%d more calls tried it", n-before)
	}
	answer <- errAway
	if a := <-probe; !a.Degraded || !a.Granted {
		t.Errorf("the probe got %+v", a)
	}
	// A failed probe restarts the retry time.
	r.charge(r.ask(1, 1000), true, true)
	expect.Equal(t, r.remote.count(), before, "asked again at once")
}

// Deletions during an outage lower the shared totals afterwards.
func TestReleasesAreOwed(t *testing.T) {
	r := newRig(t, nil)
	c := r.ask(6, 10)
	r.charge(c, true, false)
	r.arrived(1)
	r.remote.set(down)
	for range 2 { // idempotent during an outage too
		must.Do(t, r.d.Release(t.Context(), c))
	}
	r.remote.set(nil)
	r.Advance(time.Second)
	r.charge(r.ask(4, 10), true, false)
	r.arrived(3)
	r.charge(r.ask(6, 10), true, false)
	r.charge(r.ask(1, 10), false, false)
}

// Debts that could not be replayed wait for the next recovery.
func TestDebtsSurviveASecondOutage(t *testing.T) {
	r := newRig(t, down)
	for range 5 {
		r.charge(r.ask(1, 100), true, true)
	}
	var calls atomic.Int64
	r.remote.set(func(context.Context) error { // the probe and two debts succeed
		if calls.Add(1) <= 3 {
			return nil
		}
		return errAway
	})
	r.Advance(time.Second)
	r.charge(r.ask(1, 100), true, false)
	r.arrived(3)
	for i, away := range []bool{true, false, true} {
		if err := <-r.news; (err != nil) != away {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	r.remote.set(nil)
	r.Advance(time.Second)
	r.charge(r.ask(1, 100), true, false)
	r.arrived(4)
	expect.Equal(t, r.charge(r.ask(0, 100), true, false).Lines[0].Used, 7, "used")
}

// Proves TRL-6: a store that dies under load grants at most its limit plus one share,
// and no caller gets an error.
func TestKilledMidLoad(t *testing.T) {
	r := newRig(t, nil)
	var done, granted atomic.Int64
	r.remote.set(func(context.Context) error {
		if done.Add(1) > 60 {
			return errAway
		}
		return nil
	})
	at := r.Now()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 4 {
				a, err := r.d.Charge(context.Background(), memproxy.Charge{ID: fmt.Sprintf("%d-%d", i, j), Tenant: "acme", Cost: 1, Time: at, Lines: []memproxy.Line{line(100)}})
				expect.OK(t, err)
				if a.Granted {
					granted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	expect.Equal(t, granted.Load(), 60+25, "granted")
}

func TestShareOfALimit(t *testing.T) {
	for _, c := range []struct {
		limit int64
		soft  bool
		want  int64
	}{
		{100, false, 25}, {10, false, 2}, {3, false, 1}, {1, false, 1}, {0, false, 0}, {-1, false, -1},
		{30, true, 30}, {1 << 62, false, 1 << 60}, {1234567, false, 308641},
	} {
		r := newRig(t, down)
		q := r.ask(0, c.limit)
		q.Lines[0].Soft = c.soft
		expect.Equal(t, r.charge(q, true, true).Lines[0].Limit, c.want, "a share of", c.limit)
		expect.Equal(t, q.Lines[0].Limit, c.limit, "the caller's charge was changed")
	}
}

// An invalid charge does not mark the store as failed; a failing local store is an
// error, because nothing counts then.
func TestErrorsOfDegrading(t *testing.T) {
	r := newRig(t, nil)
	if _, err := r.d.Charge(t.Context(), memproxy.Charge{}); err == nil || r.d.Degraded() {
		t.Errorf("a bad charge: %v, degraded %v", err, r.d.Degraded())
	}
	gone := open(t, t.TempDir()+"/budgets.jsonl")
	must.Do(t, gone.Close())
	d := budgets.NewDegrading(budgets.DegradingOptions{Shared: &remote{fail: down}, Local: gone, Share: share, Deadline: time.Second, Clock: r.Now, Changed: func(error) {}})
	q := r.ask(1, 10)
	q.Lines[0].Window = memproxy.WindowTotal
	expect.Error(t, expect.Err(d.Charge(t.Context(), q)), "charged by nobody")
}

// That charges are lost, because too many wait to be replayed, is reported once an outage.
func TestLostReplaysAreReported(t *testing.T) {
	fail := errors.New("away")
	r := newRig(t, func(context.Context) error { return fail })
	release := func(n int) {
		for range n {
			must.Do(t, r.d.Release(t.Context(), r.ask(1, 10)))
		}
	}
	release(10_000)
	away, _ := r.changed()
	must.Equal(t, away, 1, "reports while all are kept")
	release(3)
	away, back := r.changed()
	expect.Equal(t, away, 2, "reports")
	expect.Equal(t, back, 0, "reports that it is back")
}
