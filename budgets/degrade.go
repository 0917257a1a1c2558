package budgets

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/internal/wait"
)

// Store keeps counts: the gate's budget, as this package sees it.
type Store interface {
	Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error)
	Release(context.Context, memproxy.Charge) error
}

// Limits of a Degrading store.
const (
	// retry is how long the shared store is not called after a failure.
	retry = time.Second
	// maxPending bounds the charges that wait to be replayed to the shared store.
	maxPending = 10_000
)

// DegradingOptions configure a Degrading store. All are required.
type DegradingOptions struct {
	Shared, Local Store
	// Share is the part of each limit that this process may use by itself while the shared
	// store is unavailable: about one over the number of replicas.
	Share memproxy.PerMille
	// Deadline bounds one call to the shared store. A single late call switches the whole
	// process to its share.
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
	probing     bool             // a call is probing the shared store
	pending     []*pendingReplay // oldest first
	full        bool             // pending was, which was reported
	seed        maphash.Seed
	rooms       cache.Cache[uint64, room] // by linesKey

	closed  bool
	replays sync.WaitGroup
}

// pendingReplay is a charge or a release to make in the shared store.
type pendingReplay struct {
	send   func(context.Context) error
	failed int // number of failed attempts
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

// NewDegrading returns the store.
func NewDegrading(opt DegradingOptions) *Degrading {
	return &Degrading{opt: opt, rooms: cache.New[uint64, room](maxRooms), seed: maphash.MakeSeed()}
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
		c.Written = true // it bypasses limits in the shared store, because it was granted
		d.queueReplay(func(ctx context.Context) error { _, err := d.opt.Shared.Charge(ctx, c); return err })
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
	r, ok := d.rooms.Get(key)
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
	d.rooms.Add(key, r)
}

// Release implements Store.
func (d *Degrading) Release(ctx context.Context, c memproxy.Charge) error {
	if err := Check(c); err != nil {
		return err
	}
	release := func(ctx context.Context) error { return d.opt.Shared.Release(ctx, c) }
	if d.Ask(ctx, release) {
		return nil
	}
	d.queueReplay(release)
	return d.opt.Local.Release(ctx, c)
}

// Ask calls the shared store, and reports whether it answered. While the store is
// unavailable only one call at a time, the probe, is made, once the retry time has passed.
func (d *Degrading) Ask(ctx context.Context, call func(context.Context) error) bool {
	d.mu.Lock()
	probe := d.unavailable
	if probe && (d.probing || d.opt.Clock().Before(d.until)) {
		d.mu.Unlock()
		return false
	}
	d.probing = probe
	d.mu.Unlock()
	err := d.callShared(ctx, call)
	d.recordResult(probe, err)
	return err == nil
}

func (d *Degrading) callShared(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opt.Deadline)
	defer cancel()
	return call(ctx)
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

// recordResult records the result of a call. While the store is unavailable only the probe
// can mark it available: a call that began before the failure says nothing about the
// present.
func (d *Degrading) recordResult(probe bool, err error) {
	d.mu.Lock()
	was := d.unavailable
	if probe {
		d.probing = false
	}
	if probe || err != nil {
		d.unavailable = err != nil
	}
	if err != nil {
		d.until = d.opt.Clock().Add(retry)
	}
	is := d.unavailable
	d.mu.Unlock()
	if was == is {
		return
	}
	d.opt.Changed(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !is && !d.closed { // after its recovery was reported, because a replay may report that it is gone again
		d.replays.Go(d.replayPending)
	}
}

// Close waits for the replay in progress and drops the other charges. The stores stay open.
func (d *Degrading) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	return wait.For(ctx, d.replays.Wait)
}

// replayPending makes pending charges and releases in the shared store until it fails. The
// rest waits for its next recovery; ids make the replay idempotent.
func (d *Degrading) replayPending() {
	for {
		d.mu.Lock()
		if d.closed || d.unavailable || len(d.pending) == 0 {
			d.mu.Unlock()
			return
		}
		next := d.pending[0]
		d.mu.Unlock()
		err := d.callShared(context.Background(), next.send)
		d.mu.Lock()
		if err != nil {
			next.failed++
		}
		if len(d.pending) > 0 && d.pending[0] == next && (err == nil || next.failed >= maxReplays) {
			d.pending = d.pending[1:]
		}
		d.mu.Unlock()
		if err != nil {
			d.recordResult(false, err)
			return
		}
	}
}

func (d *Degrading) queueReplay(send func(context.Context) error) {
	d.mu.Lock()
	full, reported := len(d.pending) == maxPending, d.full
	d.full = full
	if !full {
		d.pending = append(d.pending, &pendingReplay{send: send})
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
