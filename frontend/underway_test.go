package frontend_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy/frontend"
)

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
					if !errors.Is(err, frontend.ErrBusy) {
						t.Fatal(err)
					}
					return in
				}
				in = append(in, l)
			}
			return in
		}
		const all = frontend.MaxRequests
		mallory := fill("a", "mallory", "evil")
		if len(mallory) != all/4 {
			t.Errorf("one caller has %d requests under way of %d", len(mallory), all)
		}
		if n := len(fill("b", "mallory", "evil")); n != 0 {
			t.Errorf("and %d more at another address", n)
		}
		for n := range 12 {
			fill("a", fmt.Sprint("accomplice ", n), "evil")
		}
		if n := len(fill("a", "ann", "acme")); n < all/8 {
			t.Errorf("another tenant finds %d places", n)
		}
		first := len(fill("a", "", ""))
		if n := len(fill("b", "", "")); first == 0 || n == 0 || first+n > 192 || len(fill("c", "", "")) == 0 {
			t.Errorf("strangers of one address have %d requests under way, of another %d, and of a third none", first, n)
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
		if err := <-got; err != nil {
			t.Error("a place that was given back does not reach who waits:", err)
		}
		if err := <-got; !errors.Is(err, frontend.ErrBusy) {
			t.Error("one place was given back twice:", err)
		}
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
					if err := l.Enter(t.Context(), fmt.Sprint("ann ", n), "acme"); err != nil {
						t.Fatalf("%s: %d of %d tenants have all %d places: the next one finds %d", name, seed, tenants, len(in), n)
					}
					in = append(in, l)
				}
				for _, l := range in {
					l.Release()
				}
			})
		}
	}
}
