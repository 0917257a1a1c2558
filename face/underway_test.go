package face_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy/face"
)

// Proves EDGE-14: requests under way are counted for each caller and each tenant,
// and strangers apart from both; who is over a share waits a little, and not for
// others.
func TestRequestsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := face.NewInFlight(0, 0)
		fill := func(address, caller, tenant string) (in []*face.Lease) {
			for len(in) < 2*face.MaxRequests {
				l := f.Lease(address)
				if err := l.Enter(t.Context(), caller, tenant); err != nil {
					if !errors.Is(err, face.ErrBusy) {
						t.Fatal(err)
					}
					return in
				}
				in = append(in, l)
			}
			return in
		}
		const all = face.MaxRequests
		mallory := fill("a", "mallory", "evil")
		if len(mallory) != all/2 {
			t.Errorf("one caller has %d requests under way of %d", len(mallory), all)
		}
		if n := len(fill("b", "mallory", "evil")); n != 0 {
			t.Errorf("and %d more at another address", n)
		}
		accomplice := fill("a", "moriarty", "evil")
		if n := len(mallory) + len(accomplice); n != all*3/4 {
			t.Errorf("one tenant has %d requests under way of %d", n, all)
		}
		if n := len(fill("a", "", "")); n == 0 || n != len(fill("b", "", "")) || len(fill("c", "", "")) != 0 {
			t.Errorf("strangers of an address have %d requests under way, and their addresses not the same, or there is no bound of all", n)
		}
		if n := len(fill("a", "ann", "acme")); n != all/4 {
			t.Errorf("another tenant finds %d places", n)
		}
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
		if err := <-got; !errors.Is(err, face.ErrBusy) {
			t.Error("one place was given back twice:", err)
		}
	})
}
