package frontend

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
)

// ErrBusy means that too many bytes are in memory, or too many requests in progress.
var ErrBusy = errors.New("too many bytes in flight")

// Defaults of InFlight, in bytes, for a sidecar with 256 MiB.
const (
	DefaultInFlight     = 64 << 20
	DefaultInFlightPeer = 48 << 20
)

// The memory that ruling on bodies and answers takes, per byte: they are parsed and
// encoded again.
const (
	BodyCost   = 5
	AnswerCost = 3
)

// smallLease is the size, in bytes, up to which a request may use the share that is
// reserved for small ones.
const smallLease = 256 << 10

// busyWait is how long a small request waits for room. A large one waits largeWaits times
// as long, which is how long the screening of another one may take.
const (
	busyWait   = 2 * time.Second
	largeWaits = 15
)

// InFlight limits the memory that bodies and answers take at the same time, for a
// listener, for each client address and for each caller at an address. Half of it is for
// the data, half for ruling on the data. A quarter of the data's half is reserved for
// small requests, so that large ones do not shut them out. InFlight also limits the
// concurrent requests of each tenant and of each of its callers.
//
// It is not a semaphore (golang.org/x/sync/semaphore). A semaphore is first come, first
// served, so a large request that waits would shut out small ones for which there is room
// (head-of-line blocking). It also cannot be exceeded, so data that must not be refused
// (Force) would not be counted.
type InFlight struct {
	// Wait is how long a small request waits for room; NewInFlight sets two seconds. It
	// must be set before use.
	Wait time.Duration

	total, peer, caller int64 // limits of each half

	mu      sync.Mutex
	used    counts
	work    int64
	waiting list.List // of *waiter, in order of arrival
	first   *Lease    // the one large lease that may grow into the reserved quarter, so that growing leases do not deadlock

	refused atomic.Int64

	known, unidentified *requests
}

type waiter struct {
	take func() bool
	done chan struct{} // closed once take has succeeded
}

// NewInFlight returns a limit of total bytes. One address gets at most peer of them, and
// one caller at an address three quarters of peer.
func NewInFlight(total, peer int64) *InFlight {
	total = cmp.Or(max(total, 0), DefaultInFlight)
	peer = min(cmp.Or(max(peer, 0), min(DefaultInFlightPeer, total-total/4)), total) / 2
	return &InFlight{
		Wait: busyWait, total: total / 2, peer: peer, caller: peer - peer/4, used: newCounts(),
		known:        &requests{most: MaxRequests, least: minTenant, counts: newCounts()},
		unidentified: &requests{most: maxUnidentified, counts: newCounts()},
	}
}

// Side returns a limit of half the size, and of fewer requests, for memproxy's own
// requests, so that client requests cannot take what serving them needs.
func (f *InFlight) Side() *InFlight {
	if f == nil {
		return nil
	}
	side := NewInFlight(f.total, f.total)
	side.known.most = maxSides
	return side
}

// Lease is the share of one request. A nil Lease is unlimited.
type Lease struct {
	all  *InFlight
	who  party // the caller and its address
	n    int64
	work int64

	in    *requests // the counter of concurrent requests that includes this one, or nil
	party party     // under which it is counted: the tenant or the address, and the caller
}

// OwnPeer is the client address under which memproxy's own requests are counted.
const OwnPeer = "memproxy"

// Lease returns the lease of a request from an address. It is nil, and so unlimited, if f
// is nil.
func (f *InFlight) Lease(peer string) *Lease {
	if f == nil {
		return nil
	}
	return &Lease{all: f, who: party{group: peer}}
}

// SetCaller sets the caller, once it is identified. Bytes of unidentified callers count
// for the address only.
func (l *Lease) SetCaller(caller string) {
	if l == nil || caller == "" || l.who.name == caller {
		return
	}
	l.locked(func() {
		l.all.used.add(l.who, -l.n)
		l.who.name = caller
		l.all.used.add(l.who, l.n)
	})
}

// locked calls f with the lock held, if the lease is limited.
func (l *Lease) locked(f func()) {
	if l != nil {
		l.all.mu.Lock()
		defer l.all.mu.Unlock()
		f()
	}
}

func (f *InFlight) fits(l *Lease, n int64) bool {
	total, peer, caller := f.total, f.peer, f.caller
	if l.n+n > smallLease && l != f.first {
		total, peer, caller = total-total/4, peer-peer/4, caller-caller/4
	}
	// A lease that holds everything in use is always served, within its own limits.
	alone := f.used.all == l.n
	return alone || f.used.all+n <= total && f.used.groups[l.who.group]+n <= peer && (l.who.name == "" || f.used.callers[l.who]+n <= caller)
}

func (f *InFlight) take(l *Lease, n int64) {
	l.n += n
	f.used.add(l.who, n)
	if n < 0 {
		if f.first == l {
			f.first = nil
		}
		f.wake()
	}
}

// wake serves the waiters for which there is room now, in order of arrival. It walks the
// list instead of waking all goroutines, because thousands may wait.
func (f *InFlight) wake() {
	for e := f.waiting.Front(); e != nil; {
		next := e.Next()
		if w := e.Value.(*waiter); w.take() {
			f.waiting.Remove(e)
			close(w.done)
		}
		e = next
	}
}

// Grow takes n more bytes, and waits a short time for room. The error is ErrBusy if there
// is none.
func (l *Lease) Grow(ctx context.Context, n int64) error {
	if l == nil || n <= 0 {
		return nil
	}
	most := l.all.Wait
	if l.n+n > smallLease {
		most *= largeWaits
	}
	return l.all.wait(ctx, most, func() bool {
		if l.all.first == nil && l.n > smallLease && !l.all.fits(l, n) {
			l.all.first = l
		}
		if !l.all.fits(l, n) {
			return false
		}
		l.all.take(l, n)
		return true
	})
}

// Room waits a short time until n more bytes would fit. The error is ErrBusy if they do
// not.
func (l *Lease) Room(ctx context.Context, n int64) error {
	if l == nil || n <= 0 {
		return nil
	}
	return l.all.wait(ctx, l.all.Wait, func() bool { return l.all.fits(l, n) })
}

// Work reserves n bytes for ruling on the data, until Done. It waits for its turn. The
// error is ErrBusy if the turn does not come in time.
func (l *Lease) Work(ctx context.Context, n int64) error {
	if l == nil || n <= smallLease {
		return nil
	}
	return l.all.wait(ctx, largeWaits*l.all.Wait, func() bool {
		if l.all.work > 0 && l.all.work+n > l.all.total {
			return false
		}
		l.work += n
		l.all.work += n
		return true
	})
}

// Done releases what Work reserved.
func (l *Lease) Done() {
	if l != nil && l.work != 0 {
		l.locked(func() {
			l.all.work -= l.work
			l.work = 0
			l.all.wake()
		})
	}
}

// wait calls take with the lock held, until take succeeds.
func (f *InFlight) wait(ctx context.Context, most time.Duration, take func() bool) error {
	f.mu.Lock()
	if take() {
		f.mu.Unlock()
		return nil
	}
	w := &waiter{take, make(chan struct{})}
	e := f.waiting.PushBack(w)
	f.mu.Unlock()
	timeout := time.NewTimer(most)
	defer timeout.Stop()
	select {
	case <-w.done:
		return nil
	case <-timeout.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-w.done: // take succeeded at the last moment
		return nil
	default:
	}
	f.waiting.Remove(e)
	f.refused.Add(1)
	return ErrBusy
}

// Force takes n more bytes without a check, for data that can no longer be refused.
func (l *Lease) Force(n int64) {
	l.locked(func() { l.all.take(l, n) })
}

// Keep releases everything but n bytes.
func (l *Lease) Keep(n int64) {
	l.locked(func() {
		if l.n > n {
			l.all.take(l, n-l.n)
		}
	})
}

// Holds returns the number of bytes of the lease.
func (l *Lease) Holds() (n int64) {
	l.locked(func() { n = l.n })
	return n
}

// Release returns all bytes and ends the request's count.
func (l *Lease) Release() {
	l.Done()
	l.Keep(0)
	l.locked(func() {
		if l.in != nil {
			l.in.add(l.party, -1)
			l.in = nil
			l.all.wake()
		}
	})
}

// UsedBytes returns the number of bytes of all leases.
func (f *InFlight) UsedBytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used.all
}

// Refused returns how many requests were refused for lack of room since the start.
func (f *InFlight) Refused() int64 { return f.refused.Load() }

// Busy refuses a request for which there is no room.
func Busy() *memproxy.Flaw {
	return &memproxy.Flaw{
		Code: memproxy.LimitInFlight, Status: http.StatusServiceUnavailable,
		Detail: "too many requests in flight; try again",
	}
}

// NoRoom returns the reply to a request for which there is no room, on a route that is
// not ruled on.
func NoRoom(adapter backend.Adapter, q memproxy.Request) memproxy.Reply {
	flaw := Busy()
	return adapter.Refuse(q, memproxy.Decision{
		Verdict: memproxy.Deny, Status: flaw.Status, Reasons: []memproxy.Reason{{Code: flaw.Code, Detail: flaw.Detail}},
	})
}

// Peer returns the remote address of a connection, without the port. Headers that claim
// an address are not trusted.
func Peer(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
