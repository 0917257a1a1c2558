package gate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// Proves TRL-5, EDGE-4: a change waits for another of the same memory, and for no other;
// whose turn does not come in time is refused with 503 and leaves the queue, one that is
// refused by a rule keeps nobody waiting, and one that is lost does not for ever.
func TestChangesHaveTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) {
			r.budget.limit = 100
			r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
				if q.Operation.Items[0].Text == "refused" {
					return memproxy.Ruling{Verdict: memproxy.Deny}, nil
				}
				return memproxy.Ruling{}, nil
			})
		})
		for _, id := range []string{"m1", "m2"} {
			row := by("agent:dev", memproxy.TrustAuthenticated, 500)
			row.ID = id
			r.ledger.rows[id] = row
		}
		admit := func(text, id string) (*gate.Admission, time.Duration) {
			r.fake.op = correct(text, id)
			began := time.Now()
			a := r.gate.Admit(context.Background(), r.call(r.fake.op))
			return a, time.Since(began)
		}
		sent := func(a *gate.Admission, waited time.Duration) *gate.Admission {
			t.Helper()
			if a.Reply != nil || waited != 0 {
				t.Errorf("waited %v: %+v", waited, a.Decision)
			}
			return a
		}
		first := sent(admit("tea", "m1"))
		r.gate.Return(context.Background(), sent(admit("tea", "m2")), memproxy.Reply{Status: 200})
		late, waited := admit("milk", "m1")
		wantCodes(t, late.Decision, memproxy.Deny, memproxy.LimitInFlight)
		if late.Decision.Status != 503 || waited != gate.DefaultFetchTimeout {
			t.Errorf("after %v: %+v", waited, late.Decision)
		}
		r.gate.Abandon(context.Background(), first, memproxy.StreamWhole)
		if a, _ := admit("refused", "m1"); a.Reply == nil {
			t.Error("it is not refused")
		}
		sent(admit("lost", "m1"))
		time.Sleep(5 * time.Minute)
		r.gate.Return(context.Background(), sent(admit("beer", "m1")), memproxy.Reply{Status: 200})
		sent(admit("wine", "m1"))
	})
}
