package budgets

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/wait"
)

// Store is what keeps counts: the gate's budget, as this package sees it.
type Store interface {
	Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error)
	Release(context.Context, memproxy.Charge) error
}

// Defaults of DegradingOptions.
const (
	DefaultShare    memproxy.PerMille = 250
	DefaultDeadline                   = 50 * time.Millisecond
	DefaultRetry                      = time.Second
	// maxOwed bounds the charges that wait to be told to the shared store.
	maxOwed = 10_000
)

// DegradingOptions configure a Degrading store.
type DegradingOptions struct {
	Shared, Local Store
	// Share is the part of each limit that this process may use by itself
	// while the shared store is away: about one over the number of replicas.
	Share memproxy.PerMille
	// Deadline bounds one call to the shared store.
	Deadline time.Duration
	// Retry is how long the shared store is left alone after it failed.
	Retry time.Duration
	Clock func() time.Time
	// Changed is told when the store goes away (with the error) and when it is
	// back (nil). It must not block.
	Changed func(error)
}

// Degrading charges the shared store and, while that does not answer in time,
// a share of the limits in the local one. It goes back by itself, and tells
// the shared store what was charged meanwhile.
type Degrading struct {
	opt   DegradingOptions
	mu    sync.Mutex
	until time.Time // the shared store is left alone until then
	away  bool
	probe bool // one call is trying it
	owed  []owed

	closed   bool
	payments sync.WaitGroup
}

type owed struct {
	charge  memproxy.Charge
	release bool
	failed  int // times that telling it failed
}

// maxTold is how often a debt is told before it is given up.
const maxTold = 3

// NewDegrading returns the store.
func NewDegrading(opt DegradingOptions) (*Degrading, error) {
	if opt.Shared == nil || opt.Local == nil || opt.Clock == nil {
		return nil, errors.New("budgets: a degrading store needs two stores and a clock")
	}
	if opt.Share <= 0 || opt.Share > memproxy.Full {
		opt.Share = DefaultShare
	}
	if opt.Deadline <= 0 {
		opt.Deadline = DefaultDeadline
	}
	if opt.Retry <= 0 {
		opt.Retry = DefaultRetry
	}
	if opt.Changed == nil {
		opt.Changed = func(error) {}
	}
	return &Degrading{opt: opt}, nil
}

// Charge implements the gate's budget.
func (d *Degrading) Charge(ctx context.Context, c memproxy.Charge) (memproxy.Allowance, error) {
	if err := Check(c); err != nil {
		return memproxy.Allowance{}, err
	}
	if ask, probe := d.try(); ask {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opt.Deadline)
		a, err := d.opt.Shared.Charge(sctx, c)
		cancel()
		d.tried(probe, err)
		if err == nil {
			return a, nil
		}
	}
	a, err := d.opt.Local.Charge(ctx, d.share(c))
	a.Degraded = true
	if err == nil && a.Granted && !c.Peek {
		d.owe(owed{charge: c})
	}
	return a, err // its lines show the share as the limit: that is what ruled
}

// Release implements the gate's budget.
func (d *Degrading) Release(ctx context.Context, c memproxy.Charge) error {
	if err := Check(c); err != nil {
		return err
	}
	if ask, probe := d.try(); ask {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opt.Deadline)
		err := d.opt.Shared.Release(sctx, c)
		cancel()
		d.tried(probe, err)
		if err == nil {
			return nil
		}
	}
	d.owe(owed{charge: c, release: true})
	return d.opt.Local.Release(ctx, c)
}

// share is a charge with every limit cut to the share, at least one.
func (d *Degrading) share(c memproxy.Charge) memproxy.Charge {
	lines := make([]memproxy.Line, len(c.Lines))
	for i, l := range c.Lines {
		if l.Limit > 0 && !l.Soft {
			whole, rest := l.Limit/int64(memproxy.Full), l.Limit%int64(memproxy.Full)
			l.Limit = max(1, whole*int64(d.opt.Share)+rest*int64(d.opt.Share)/int64(memproxy.Full))
		}
		lines[i] = l
	}
	c.Lines = lines
	return c
}

// try reports whether this call may ask the shared store: always while it is
// well, and one call at a time, the probe, while it is away and the pause is
// over.
func (d *Degrading) try() (ask, probe bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.away {
		return true, false
	}
	if d.probe || d.opt.Clock().Before(d.until) {
		return false, false
	}
	d.probe = true
	return true, true
}

// tried records how a call went. While the store is away only the probe can
// bring it back: an answer to a call from before says nothing of now.
func (d *Degrading) tried(probe bool, err error) {
	d.mu.Lock()
	was := d.away
	if probe {
		d.probe = false
	}
	if err == nil && was && !probe {
		d.mu.Unlock()
		return
	}
	d.away = err != nil
	if err != nil {
		d.until = d.opt.Clock().Add(d.opt.Retry)
	}
	var debts []owed
	if was && err == nil {
		debts, d.owed = d.owed, nil
	}
	d.mu.Unlock()
	if was != (err != nil) {
		d.opt.Changed(err)
	}
	if len(debts) > 0 {
		d.paying(debts)
	}
}

// paying pays in parallel with the calls, unless the end has begun.
func (d *Degrading) paying(debts []owed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.payments.Go(func() { d.pay(debts) })
}

// Close waits until what is being told to the shared store is told; what is
// owed besides is forgotten with this process. The stores stay open.
func (d *Degrading) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	return wait.For(ctx, d.payments.Wait)
}

// pay tells the shared store what happened while it was away. Charges go
// through without limits: they were granted. When the store goes away again
// the rest waits for its next return; the ids make a double impossible.
func (d *Degrading) pay(debts []owed) {
	for i, o := range debts {
		d.mu.Lock()
		closed := d.closed
		d.mu.Unlock()
		if closed {
			return
		}
		err := d.tell(o)
		if err == nil {
			continue
		}
		rest := debts[i:]
		if rest[0].failed++; rest[0].failed >= maxTold {
			rest = rest[1:]
		}
		d.mu.Lock()
		d.owed = append(slices.Clone(rest), d.owed...)
		d.owed = d.owed[:min(len(d.owed), maxOwed)]
		d.mu.Unlock()
		d.tried(false, err)
		return
	}
}

// tell makes one charge or release on the shared store.
func (d *Degrading) tell(o owed) error {
	ctx, cancel := context.WithTimeout(context.Background(), d.opt.Deadline)
	defer cancel()
	if o.release {
		return d.opt.Shared.Release(ctx, o.charge)
	}
	c := o.charge
	c.Written = true
	_, err := d.opt.Shared.Charge(ctx, c)
	return err
}

func (d *Degrading) owe(o owed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.owed) < maxOwed {
		d.owed = append(d.owed, o)
	}
}

// Degraded reports whether the shared store is away.
func (d *Degrading) Degraded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.away
}
