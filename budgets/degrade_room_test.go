package budgets_test

import (
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// A shared store is not asked in advance about lines on which a charge of the last second
// left room, near the limit excepted.
func TestRoomIsKnownForASecond(t *testing.T) {
	r := newRig(t, nil)
	asked := func(c memproxy.Charge, granted bool, want int, why string) {
		t.Helper()
		before := r.remote.count()
		c.Peek = true
		r.charge(c, granted, false)
		expect.Equal(t, r.remote.count()-before, want, why)
	}
	asked(r.ask(1, 10), true, 1, "nothing is known")
	r.charge(r.ask(7, 10), true, false)
	asked(r.ask(3, 10), true, 0, "there is room")
	asked(r.ask(4, 10), false, 1, "the charge costs more")
	asked(r.ask(3, 11), true, 1, "the limit is another")
	other := r.ask(3, 10)
	other.Tenant = "other"
	asked(other, true, 1, "the tenant is another")
	asked(r.ask(3, 10), true, 0, "there is room")
	r.Advance(time.Second)
	asked(r.ask(3, 10), true, 1, "it was a second ago")
	r.charge(r.ask(1, 10), true, false)
	asked(r.ask(1, 10), true, 1, "the limit is near")
	r.charge(r.ask(3, 10), false, false)
	asked(r.ask(1, 10), true, 1, "a charge was refused")
}
