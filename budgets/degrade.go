package budgets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/wait"
)

// Store keeps counts: the gate's budget, as this package sees it.
type Store interface {
	Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error)
	Release(context.Context, memproxy.Charge) error
}

// Defaults of DegradingOptions.
const (
	DefaultShare memproxy.PerMille = 250
	// DefaultDeadline tolerates a burst of writes on a machine with few processors: a
	// single late call switches the whole process to its share.
	DefaultDeadline = 250 * time.Millisecond
	// retry is how long the shared store is not called after a failure.
	retry = time.Second
	// maxPending bounds the charges that wait to be replayed to the shared store.
	maxPending = 10_000
)

// DegradingOptions configure a Degrading store.
type DegradingOptions struct {
	Shared, Local Store
	// Share is the part of each limit that this process may use by itself while the shared
	// store is unavailable: about one over the number of replicas.
	Share memproxy.PerMille
	// Deadline bounds one call to the shared store.
	Deadline time.Duration
	Clock    func() time.Time
	// Changed is called when the store becomes unavailable (with the error), when charges
	// begin to be lost meanwhile (with another), and when it is available again (nil). It
	// must not block.
	Changed func(error)
}

// Degrading charges the shared store. While the shared store does not answer in time,
// Degrading charges the local store with a share of the limits, and replays those
// charges to the shared store once it answers again.
type Degrading struct {
	opt         DegradingOptions
	mu          sync.Mutex
	until       time.Time // the shared store is not called before this time
	unavailable bool
	probe       bool // a call is probing the shared store
	pending     []pendingReplay
	full        bool // pending was, which was reported
	seed        maphash.Seed
	rooms       map[uint64]room // by linesKey

	closed  bool
	replays sync.WaitGroup
}

type pendingReplay struct {
	charge  memproxy.Charge
	release bool
	failed  int // failed replays
}

// room is what the last charge of a list of lines left.
type room struct {
	left int64 // on the line with the least; 0 if a line is near its limit
	at   time.Time
}

// Limits of what is known about room: its age, and the number of lists of lines.
const (
	roomKnown = time.Second
	maxRooms  = 10_000
)

// maxReplays is how often the replay of a charge is tried.
const maxReplays = 3

// NewDegrading validates the options and returns the store.
func NewDegrading(opt DegradingOptions) (*Degrading, error) {
	if opt.Shared == nil || opt.Local == nil || opt.Clock == nil {
		return nil, errors.New("budgets: a degrading store needs two stores and a clock")
	}
	if opt.Share <= 0 || opt.Share > memproxy.Full {
		opt.Share = DefaultShare
	}
	opt.Deadline = cmp.Or(opt.Deadline, DefaultDeadline)
	if opt.Changed == nil {
		opt.Changed = func(error) {}
	}
	return &Degrading{opt: opt, rooms: map[uint64]room{}, seed: maphash.MakeSeed()}, nil
}

// Charge implements Store. It returns the shared store's allowance, or that of the
// local store with reduced limits.
func (d *Degrading) Charge(ctx context.Context, c memproxy.Charge) (memproxy.Allowance, error) {
	if err := Check(c); err != nil {
		return memproxy.Allowance{}, err
	}
	key := d.linesKey(&c)
	if c.Peek && d.hasRoom(key, c.Cost) {
		return memproxy.Allowance{Granted: true, Refused: -1}, nil
	}
	var a memproxy.Allowance
	if d.Ask(ctx, func(ctx context.Context) (err error) { a, err = d.opt.Shared.Charge(ctx, c); return err }) {
		if !c.Peek {
			d.noteRoom(key, &a)
		}
		return a, nil
	}
	a, err := d.opt.Local.Charge(ctx, d.share(c))
	a.Degraded = true
	if err == nil && a.Granted && !c.Peek {
		d.queueReplay(pendingReplay{charge: c})
	}
	return a, err // its lines contain the reduced limits
}

// linesKey returns the key of a charge's lines. Two lists may have the same one, because
// it only decides whether the shared store is asked in advance.
func (d *Degrading) linesKey(c *memproxy.Charge) uint64 {
	var h maphash.Hash
	h.SetSeed(d.seed)
	_, _ = h.WriteString(c.Tenant)
	for _, l := range c.Lines {
		maphash.WriteComparable(&h, l)
	}
	return h.Sum64()
}

// hasRoom reports whether a charge within the last second left room on all lines, so that
// it is certain enough that another will be granted. The charge itself is always asked of
// the shared store.
func (d *Degrading) hasRoom(key uint64, cost int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.rooms[key]
	return ok && cost <= r.left && d.opt.Clock().Sub(r.at) < roomKnown
}

func (d *Degrading) noteRoom(key uint64, a *memproxy.Allowance) {
	r := room{left: math.MaxInt64, at: d.opt.Clock()}
	for i := range a.Lines {
		switch l := &a.Lines[i]; {
		case l.Soft, l.Limit < 0:
		case !a.Granted, l.Used >= l.Limit-l.Limit/5: // others could use up the rest within a second
			r.left = 0
		default:
			r.left = min(r.left, l.Remaining())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rooms) >= maxRooms {
		clear(d.rooms)
	}
	d.rooms[key] = r
}

// Release implements Store.
func (d *Degrading) Release(ctx context.Context, c memproxy.Charge) error {
	if err := Check(c); err != nil {
		return err
	}
	if d.Ask(ctx, func(ctx context.Context) error { return d.opt.Shared.Release(ctx, c) }) {
		return nil
	}
	d.queueReplay(pendingReplay{charge: c, release: true})
	return d.opt.Local.Release(ctx, c)
}

// Ask calls the shared store if try permits it, and reports whether the store answered.
func (d *Degrading) Ask(ctx context.Context, call func(context.Context) error) bool {
	ask, probe := d.try()
	if !ask {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opt.Deadline)
	defer cancel()
	err := call(ctx)
	d.recordResult(probe, err)
	return err == nil
}

// share reduces every limit of a charge to this process's share, but to no less than one.
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

// try reports whether this call may use the shared store: always while it is available;
// while it is not, one call at a time, the probe, once the retry time has passed.
func (d *Degrading) try() (ask, probe bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.unavailable {
		return true, false
	}
	if d.probe || d.opt.Clock().Before(d.until) {
		return false, false
	}
	d.probe = true
	return true, true
}

// recordResult records the result of a call. While the store is unavailable only the probe
// can mark it available: a call that began before the failure says nothing about the
// present.
func (d *Degrading) recordResult(probe bool, err error) {
	d.mu.Lock()
	was := d.unavailable
	if probe {
		d.probe = false
	}
	if err == nil && was && !probe {
		d.mu.Unlock()
		return
	}
	d.unavailable = err != nil
	if err != nil {
		d.until = d.opt.Clock().Add(retry)
	}
	var pending []pendingReplay
	if was && err == nil {
		pending, d.pending = d.pending, nil
	}
	if len(pending) > 0 && !d.closed {
		d.replays.Go(func() { d.replayAll(pending) })
	}
	d.mu.Unlock()
	if was != (err != nil) {
		d.opt.Changed(err)
	}
}

// Close waits for the replay in progress and drops the other charges. The stores stay open.
func (d *Degrading) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	return wait.For(ctx, d.replays.Wait)
}

// replayAll replays charges and releases to the shared store. Charges bypass limits
// because they were granted. If the store fails again, the rest waits for its next
// recovery; ids make the replay idempotent.
func (d *Degrading) replayAll(pending []pendingReplay) {
	for i, o := range pending {
		d.mu.Lock()
		closed := d.closed
		d.mu.Unlock()
		if closed {
			return
		}
		err := d.replay(o)
		if err == nil {
			continue
		}
		rest := pending[i:]
		if rest[0].failed++; rest[0].failed >= maxReplays {
			rest = rest[1:]
		}
		d.mu.Lock()
		d.pending = append(slices.Clone(rest), d.pending...)
		d.pending = d.pending[:min(len(d.pending), maxPending)]
		d.mu.Unlock()
		d.recordResult(false, err)
		return
	}
}

// replay makes one charge or release in the shared store.
func (d *Degrading) replay(o pendingReplay) error {
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

func (d *Degrading) queueReplay(o pendingReplay) {
	d.mu.Lock()
	full, reported := len(d.pending) == maxPending, d.full
	if d.full = full; !full {
		d.pending = append(d.pending, o)
	}
	d.mu.Unlock()
	if full && !reported {
		d.opt.Changed(errPending)
	}
}

var errPending = fmt.Errorf("%d charges wait to be counted there, and later ones are not", maxPending)

// Degraded reports whether the shared store is unavailable.
func (d *Degrading) Degraded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unavailable
}
