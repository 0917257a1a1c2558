package face

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// ErrBusy says that too many bytes are held, or too many requests under way, at
// once.
var ErrBusy = errors.New("too much is in flight")

// Defaults of InFlight, in bytes. They suit a sidecar of 256 MiB.
const (
	DefaultInFlight     = 64 << 20
	DefaultInFlightPeer = 48 << 20
)

// What bodies and answers cost while they are ruled on, in bytes for each byte:
// they are taken apart, and put together anew.
const (
	BodyCost   = 5
	AnswerCost = 3
)

// smallLease is what a request may hold of the part that large ones leave free.
const smallLease = 256 << 10

// How long a request waits for room: to hold more, which others may never give
// back, and to be ruled on, which is over soon.
const (
	busyWait = 2 * time.Second
	workWait = 10 * time.Second
)

// InFlight bounds the bytes that bodies and answers take at once, by a listener,
// for each client address and for each caller there: half of them are for what
// is held, half for what ruling on it takes besides. A quarter of what may be
// held is kept for requests that hold little, so that large ones do not shut
// ordinary ones out. It bounds the requests that are under way as well, for each
// tenant and each of its callers.
//
// It is no semaphore (golang.org/x/sync/semaphore): that serves those who wait in
// order, so a large request that waits would shut out small ones for which there
// is room, and it cannot be exceeded, so what cannot be refused (Force) would not
// be counted.
type InFlight struct {
	// Wait is how long room is waited for; NewInFlight gives two seconds. It is set
	// before use.
	Wait time.Duration

	total, peer, caller int64 // of either half

	mu      sync.Mutex
	used    int64
	work    int64
	peers   map[string]int64
	callers map[holder]int64
	waiting list.List // of *waiter, who came first in front
	refused int64

	known, strangers *requests
}

// holder is a caller at an address.
type holder struct{ peer, caller string }

// waiter is a request that waits for room.
type waiter struct {
	take func() bool
	done chan struct{} // closed once it has taken what it asked for
}

// NewInFlight returns a budget in bytes, of which one address gets peer, and one
// caller at an address three quarters of that.
func NewInFlight(total, peer int64) *InFlight {
	if total <= 0 {
		total = DefaultInFlight
	}
	if peer <= 0 {
		peer = min(DefaultInFlightPeer, total-total/4)
	}
	peer = min(peer, total) / 2
	return &InFlight{
		Wait: busyWait, total: total / 2, peer: peer, caller: peer - peer/4, peers: map[string]int64{}, callers: map[holder]int64{},
		known:     newRequests(MaxRequests, minTenant),
		strangers: newRequests(maxStrangers, 0),
	}
}

// Side returns a budget of half the size, and of fewer requests, for those that
// memproxy makes itself, so that those who are served do not use up what serving
// them takes.
func (f *InFlight) Side() *InFlight {
	if f == nil {
		return nil
	}
	side := NewInFlight(f.total, f.total)
	side.known.most = maxSides
	return side
}

// Lease is what one request holds. A nil Lease holds what it likes.
type Lease struct {
	all  *InFlight
	who  holder
	n    int64
	work int64

	in    *requests // that it is counted in, or nil
	party party
}

// Own stands for an address in the leases of what memproxy asks for itself.
const Own = "memproxy"

// Lease begins a request of an address. Nil: nothing is bounded.
func (f *InFlight) Lease(peer string) *Lease {
	if f == nil {
		return nil
	}
	return &Lease{all: f, who: holder{peer: peer}}
}

// By names the caller, once it is known. What is held before is the address's
// alone.
func (l *Lease) By(caller string) {
	if l == nil || caller == "" || l.who.caller == caller {
		return
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.who.caller != "" {
		add(l.all.callers, l.who, -l.n)
	}
	l.who.caller = caller
	add(l.all.callers, l.who, l.n)
}

func (f *InFlight) fits(l *Lease, n int64) bool {
	total, peer, caller := f.total, f.peer, f.caller
	if l.n+n > smallLease {
		total, peer, caller = total-total/4, peer-peer/4, caller-caller/4
	}
	// A request that is alone is served, whatever it takes: its own bounds hold.
	alone := f.used == l.n
	return alone || f.used+n <= total && f.peers[l.who.peer]+n <= peer && (l.who.caller == "" || f.callers[l.who]+n <= caller)
}

func (f *InFlight) take(l *Lease, n int64) {
	l.n += n
	f.used += n
	add(f.peers, l.who.peer, n)
	if l.who.caller != "" {
		add(f.callers, l.who, n)
	}
	if n < 0 {
		f.wake()
	}
}

func add[K comparable](m map[K]int64, k K, n int64) {
	if m[k] += n; m[k] == 0 {
		delete(m, k)
	}
}

// wake gives those who wait what fits now, in the order in which they came. It
// is they that are looked at, not their goroutines that are all woken: thousands
// may wait.
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

// Grow takes n bytes more, for which it waits a little. ErrBusy: there is no
// room.
func (l *Lease) Grow(ctx context.Context, n int64) error {
	if l == nil || n <= 0 {
		return nil
	}
	return l.all.wait(ctx, l.all.Wait, func() bool {
		if !l.all.fits(l, n) {
			return false
		}
		l.all.take(l, n)
		return true
	})
}

// Room waits a little until there would be room for n bytes more. ErrBusy: there
// is none.
func (l *Lease) Room(ctx context.Context, n int64) error {
	if l == nil || n <= 0 {
		return nil
	}
	return l.all.wait(ctx, l.all.Wait, func() bool { return l.all.fits(l, n) })
}

// Work takes n bytes for ruling on what is held, until Done. It waits its turn;
// ErrBusy: that did not come.
func (l *Lease) Work(ctx context.Context, n int64) error {
	if l == nil || n <= smallLease {
		return nil
	}
	return l.all.wait(ctx, workWait, func() bool {
		if l.all.work > 0 && l.all.work+n > l.all.total {
			return false
		}
		l.work += n
		l.all.work += n
		return true
	})
}

// Done gives back what Work took.
func (l *Lease) Done() {
	if l == nil || l.work == 0 {
		return
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.all.work -= l.work
	l.work = 0
	l.all.wake()
}

// wait calls take, with the lock held, until it has taken what there is.
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
	case <-w.done: // at the last moment
		return nil
	default:
	}
	f.waiting.Remove(e)
	f.refused++
	return ErrBusy
}

// Force takes n bytes more without asking: of what cannot be refused any more.
func (l *Lease) Force(n int64) {
	if l != nil {
		l.all.mu.Lock()
		defer l.all.mu.Unlock()
		l.all.take(l, n)
	}
}

// Keep gives back everything but n bytes.
func (l *Lease) Keep(n int64) {
	if l != nil {
		l.all.mu.Lock()
		defer l.all.mu.Unlock()
		if l.n > n {
			l.all.take(l, n-l.n)
		}
	}
}

// Holds is how many bytes it holds.
func (l *Lease) Holds() int64 {
	if l == nil {
		return 0
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	return l.n
}

// Release gives everything back.
func (l *Lease) Release() {
	l.Done()
	l.Keep(0)
	l.leave()
}

// Held is how many bytes are held in all.
func (f *InFlight) Held() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// Refused is how many requests found no room, ever.
func (f *InFlight) Refused() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// Busy refuses a request for which there is no room.
func Busy() *memproxy.Malformed {
	return &memproxy.Malformed{
		Code: memproxy.LimitInFlight, Status: http.StatusServiceUnavailable,
		Detail: "too many requests are under way; try again",
	}
}

// NoRoom is the answer to a request for which there is no room, of a route that
// is not ruled on.
func NoRoom(adapter gate.Adapter, q memproxy.Request) memproxy.Reply {
	flaw := Busy()
	return adapter.Refuse(q, memproxy.Decision{
		Verdict: memproxy.Deny, Status: flaw.Status, Reasons: []memproxy.Reason{{Code: flaw.Code, Detail: flaw.Detail}},
	})
}

// Peer is the address of a connection's other end, without its port. No header
// is believed about it.
func Peer(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
