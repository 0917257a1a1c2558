package face

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
)

// ErrBusy says that too many bytes are held at once.
var ErrBusy = errors.New("too many bytes are in flight")

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

// InFlight bounds the bytes that bodies and answers take at once, by a listener
// and for each client address: half of them are for what is held, half for what
// ruling on it takes besides. A quarter of what may be held is kept for requests
// that hold little, so that large ones do not shut ordinary ones out.
type InFlight struct {
	total, peer int64 // of either half

	mu    sync.Mutex
	used  int64
	work  int64
	peers map[string]int64
	freed chan struct{} // closed at the next release, if anybody waits
}

// NewInFlight returns a budget in bytes, of which one address gets peer.
func NewInFlight(total, peer int64) *InFlight {
	if total <= 0 {
		total = DefaultInFlight
	}
	if peer <= 0 {
		peer = min(DefaultInFlightPeer, total-total/4)
	}
	return &InFlight{total: total / 2, peer: min(peer, total) / 2, peers: map[string]int64{}}
}

// Lease is what one request holds. A nil Lease holds what it likes.
type Lease struct {
	all  *InFlight
	peer string
	n    int64
	work int64
}

// Lease begins a request of an address. Nil: nothing is bounded.
func (f *InFlight) Lease(peer string) *Lease {
	if f == nil {
		return nil
	}
	return &Lease{all: f, peer: peer}
}

func (f *InFlight) fits(l *Lease, n int64) bool {
	total, peer := f.total, f.peer
	if l.n+n > smallLease {
		total, peer = total-total/4, peer-peer/4
	}
	// A request that is alone is served, whatever it takes: its own bounds hold.
	alone := f.used == l.n
	return alone || f.used+n <= total && f.peers[l.peer]+n <= peer
}

func (f *InFlight) take(l *Lease, n int64) {
	l.n += n
	f.used += n
	if f.peers[l.peer] += n; f.peers[l.peer] == 0 {
		delete(f.peers, l.peer)
	}
	if n < 0 {
		f.wake()
	}
}

// wake has everybody that waits look again.
func (f *InFlight) wake() {
	if f.freed != nil {
		close(f.freed)
		f.freed = nil
	}
}

// Grow takes n bytes more, for which it waits a little. ErrBusy: there is no
// room.
func (l *Lease) Grow(ctx context.Context, n int64) error {
	if l == nil || n <= 0 {
		return nil
	}
	return l.all.wait(ctx, busyWait, func() bool {
		if !l.all.fits(l, n) {
			return false
		}
		l.all.take(l, n)
		return true
	})
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
	var timeout <-chan time.Time
	for {
		f.mu.Lock()
		if take() {
			f.mu.Unlock()
			return nil
		}
		if f.freed == nil {
			f.freed = make(chan struct{})
		}
		freed := f.freed
		f.mu.Unlock()
		if timeout == nil {
			t := time.NewTimer(most)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-freed:
		case <-timeout:
			return ErrBusy
		case <-ctx.Done():
			return ErrBusy
		}
	}
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

// Release gives everything back.
func (l *Lease) Release() {
	l.Done()
	l.Keep(0)
}

// Held is how many bytes are held in all.
func (f *InFlight) Held() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// Busy refuses a request for which there is no room.
func Busy() *memproxy.Malformed {
	return &memproxy.Malformed{
		Code: memproxy.LimitInFlight, Status: http.StatusServiceUnavailable,
		Detail: "too many requests are being read or answered; try again",
	}
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
