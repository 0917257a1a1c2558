package frontend_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-14: no address gets all the bytes in flight, a quarter is for small
// requests, and returned bytes go to those that wait.
func TestInFlight(t *testing.T) {
	synctest.Test(t, inFlight)
}

func inFlight(t *testing.T) {
	now, cancel := context.WithCancel(t.Context())
	cancel() // does not wait
	const mega = 1 << 20
	f := frontend.NewInFlight(32*mega, 16*mega)
	a := f.Lease("a")
	must.Do(t, a.Grow(now, 6*mega))
	expect.OK(t, a.Grow(now, mega), "alone, and still refused")
	other := f.Lease("a")
	expect.Is(t, other.Grow(now, mega), frontend.ErrBusy, "one address gets more than its share")
	expect.OK(t, other.Grow(now, 64<<10), "a small request is refused")
	b := f.Lease("b")
	expect.OK(t, b.Grow(now, 4*mega), "another address is refused")
	expect.Is(t, f.Lease("c").Grow(now, 4*mega), frontend.ErrBusy, "the last quarter goes to a large request")
	done := make(chan error)
	go func() { done <- f.Lease("c").Grow(t.Context(), mega) }()
	synctest.Wait()
	a.Release()
	expect.OK(t, <-done, "what was given back does not reach who waits")
	b.Keep(mega)
	b.Force(20 * mega)
	expect.Equal(t, f.UsedBytes(), 64<<10+mega+21*mega)
	b.Release()
	b.Release()
	other.Release()
	expect.Equal(t, f.UsedBytes(), mega)
	expect.OK(t, a.Work(now, 12*mega))
	expect.Is(t, b.Work(now, 12*mega), frontend.ErrBusy, "more is worked on than there is room for")
	expect.OK(t, b.Work(now, 64<<10), "a small request waits for large ones")
	a.Done()
	expect.OK(t, b.Work(now, 40*mega), "alone, and still refused")
	b.Release()
	var none *frontend.InFlight
	expect.OK(t, none.Lease("a").Grow(now, 1<<40))
}

// Proves EDGE-14: callers at one address do not block each other, and thousands of
// waiters do not slow down those that are served.
func TestInFlightOfCallers(t *testing.T) {
	synctest.Test(t, inFlightOfCallers)
}

func inFlightOfCallers(t *testing.T) {
	now, cancel := context.WithCancel(t.Context())
	cancel()
	f := frontend.NewInFlight(32<<20, 16<<20) // 8 MiB of data for an address, 6 for a caller
	var held []*frontend.Lease
	for {
		l := f.Lease("a")
		l.SetCaller("mallory")
		if l.Grow(now, 128<<10) != nil {
			break
		}
		held = append(held, l)
	}
	expect.Equal(t, f.UsedBytes(), 6<<20, "one caller holds")
	ann := f.Lease("a")
	ann.SetCaller("ann")
	expect.OK(t, ann.Grow(now, 64<<10), "a caller is shut out by another at its address")
	const many = 2000
	got := make(chan error, many)
	for range many {
		l := f.Lease("a")
		l.SetCaller("mallory")
		go func() {
			err := l.Grow(t.Context(), 4<<10)
			l.Release()
			got <- err
		}()
	}
	synctest.Wait() // they wait, and the clock stands still
	for _, l := range held {
		l.Release()
	}
	for range many {
		expect.OK(t, <-got, "what is given back does not reach all who wait")
	}
	ann.Release()
	expect.Equal(t, f.UsedBytes(), 0)
}

// Proves EDGE-14: small requests are served while a large one waits for room.
func TestSmallRequestsPassALargeOneThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, cancel := context.WithCancel(t.Context())
		cancel()
		f := frontend.NewInFlight(32<<20, 32<<20) // 16 MiB of data
		must.Do(t, f.Lease("a").Grow(now, 7<<20))
		for range 40 {
			must.Do(t, f.Lease("b").Grow(now, 128<<10))
		}
		large := make(chan error)
		go func() { large <- f.Lease("c").Grow(t.Context(), 5<<20) }()
		synctest.Wait()
		expect.OK(t, f.Lease("d").Grow(now, 64<<10), "4 MiB are free, and a small request is refused")
		expect.Is(t, <-large, frontend.ErrBusy, "a large request is served out of what is left for small ones")
	})
}

// paced is an answer of unknown length that arrives in pieces.
type paced struct{ left int }

func (p *paced) Read(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	n := min(len(b), p.left, 64<<10)
	if p.left -= n; p.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Proves EDGE-14: large answers of one caller that arrive together are all read: one of
// them may always grow, so that they do not hold memory and wait for each other.
func TestLargeAnswersDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := frontend.NewInFlight(0, 0)
		results := make(chan error)
		for range 40 {
			go func() {
				l := f.Lease("a")
				defer l.Release()
				l.SetCaller("agent:dev")
				_, err := frontend.ReadGrown(&paced{3 << 20}, -1, 16<<20, func(n int64) error { return l.Grow(t.Context(), n) })
				results <- err
			}()
		}
		for range 40 {
			expect.OK(t, <-results)
		}
		synctest.Wait() // until the last lease is released
		expect.Equal(t, f.UsedBytes(), 0)
	})
}

// Proves EDGE-14: an answer that cannot be refused, because its write has happened, is
// counted: others find no room until its bytes are returned.
func TestForcedBytesAreCounted(t *testing.T) {
	now, cancel := context.WithCancel(t.Context())
	cancel()
	f := frontend.NewInFlight(32<<20, 32<<20)
	first, write := f.Lease("a"), f.Lease("b")
	must.Do(t, first.Grow(now, 8<<20))
	write.Force(30 << 20)
	first.Release()
	expect.Is(t, f.Lease("c").Grow(now, 4<<10), frontend.ErrBusy, f.UsedBytes(), "bytes are held of", 16<<20, "and another request is served")
	write.Release()
	expect.OK(t, f.Lease("c").Grow(now, 4<<10))
}

// Proves EDGE-14: a large answer waits for those before it to be ruled on, and a small
// one, which has room of its own, not so long.
func TestLargeAnswersWaitLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := frontend.NewInFlight(4<<20, 4<<20)
		f.Lease("a").Force(2 << 20)
		for n, want := range map[int64]time.Duration{64 << 10: f.Wait, 1 << 20: 15 * f.Wait} {
			begun := time.Now()
			err := f.Lease("b").Grow(t.Context(), n)
			waited := time.Since(begun)
			expect.That(t, errors.Is(err, frontend.ErrBusy) && waited == want, "%d bytes wait %v: %v", n, waited, err)
		}
	})
}

// Proves EDGE-14: concurrent requests are counted for each caller and each tenant, and
// unidentified ones separately; a caller over its share waits for a short time, and
// delays no other.
func TestRequestsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := frontend.NewInFlight(0, 0)
		fill := func(address, caller, tenant string) (in []*frontend.Lease) {
			for len(in) < 2*frontend.MaxRequests {
				l := f.Lease(address)
				if err := l.Enter(t.Context(), caller, tenant); err != nil {
					must.Is(t, err, frontend.ErrBusy)
					return in
				}
				in = append(in, l)
			}
			return in
		}
		const all = frontend.MaxRequests
		mallory := fill("a", "mallory", "evil")
		expect.Len(t, mallory, all/4, "one caller has", all)
		expect.Equal(t, len(fill("b", "mallory", "evil")), 0)
		for n := range 12 {
			fill("a", fmt.Sprint("accomplice ", n), "evil")
		}
		if n := len(fill("a", "ann", "acme")); n < all/8 {
			t.Errorf("another tenant finds %d places", n)
		}
		first := len(fill("a", "", ""))
		if n := len(fill("b", "", "")); first == 0 || n == 0 || first+n > 192 || len(fill("c", "", "")) == 0 {
			t.Errorf("unidentified of one address have %d requests under way, of another %d, and of a third none", first, n)
		}
		f = frontend.NewInFlight(0, 0)
		mallory = fill("a", "mallory", "evil")
		got := make(chan error)
		for i := range 2 {
			go func() { got <- f.Lease(fmt.Sprint(i)).Enter(t.Context(), "mallory", "evil") }()
		}
		synctest.Wait()
		mallory[0].Release()
		mallory[0].Release()
		expect.OK(t, <-got, "a place that was given back does not reach who waits")
		expect.Is(t, <-got, frontend.ErrBusy, "one place was given back twice")
	})
}

// Proves EDGE-14: however many callers of many tenants take as much as they can, in any
// order, a tenant without requests finds a place, and with one or two such tenants much
// more; the same holds for side requests. Returned places can be used again.
func TestSomeRoomIsAlwaysLeft(t *testing.T) {
	for name, f := range map[string]*frontend.InFlight{"requests": frontend.NewInFlight(0, 0), "side requests": frontend.NewInFlight(0, 0).Side()} {
		for seed := range uint64(8) {
			synctest.Test(t, func(t *testing.T) {
				dice := rand.New(rand.NewPCG(seed, 1))
				tenants := int(seed)*3 + 1
				var in []*frontend.Lease
				full := 0
				for full < 200 {
					l := f.Lease("a")
					tenant := dice.IntN(tenants)
					// A request over its share would wait; the context is cancelled
					// instead.
					gone, cancel := context.WithCancel(t.Context())
					cancel()
					if l.Enter(gone, fmt.Sprint(tenant, " ", dice.IntN(9)), fmt.Sprint(tenant)) != nil {
						full++
						continue
					}
					full, in = 0, append(in, l)
				}
				want := 1
				if tenants <= 4 {
					want = 6
				}
				for n := range want {
					l := f.Lease("b")
					must.Do(t, l.Enter(t.Context(), fmt.Sprint("ann ", n), "acme"), name, seed, tenants, "tenants have all", len(in), "places: the next one finds", n)
					in = append(in, l)
				}
				for _, l := range in {
					l.Release()
				}
			})
		}
	}
}
