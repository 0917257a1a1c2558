package gate_test

import (
	"context"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// tally counts what is screened.
type tally struct {
	screener
	n *int
}

func (c tally) Screen(ctx context.Context, s memproxy.Screening) ([]memproxy.Finding, error) {
	*c.n++
	return c.screener.Screen(ctx, s)
}

// Proves CARD-4: a write that a budget will refuse is refused before it is
// screened, and one that has room is screened and charged once. In shadow mode
// it is screened, for the record.
func TestWhatABudgetRefusesIsNotScreened(t *testing.T) {
	screened := 0
	r := newRig(t, func(r *rig) { r.rules.Screener = tally{n: &screened} })
	big := learn("a note")
	big.Cost = 11 // of 10
	a := r.admit(big)
	wantCodes(t, a.Decision, memproxy.Deny, memproxy.BudgetHour)
	expect.That(t, a.Decision.Status == 429 && a.Decision.Allowance != nil && screened == 0 && r.budget.used == 0, "%+v; screened %d times, charged %d", a.Decision, screened, r.budget.used)
	for range 10 {
		wantCodes(t, r.admit(learn("a note")).Decision, memproxy.Allow)
	}
	expect.Equal(t, screened, 10, "screened")
	expect.Equal(t, r.budget.used, 10, "screened")
	for range 5 {
		wantCodes(t, r.admit(learn("a note")).Decision, memproxy.Deny, memproxy.BudgetHour)
	}
	expect.Equal(t, screened, 10, "with nothing left: screened")
	expect.Equal(t, r.budget.used, 10, "with nothing left: screened")
	r.rules.Enforce = false
	a = r.admit(learn("a note"))
	expect.That(t, a.Decision.Verdict == memproxy.Allow && a.Decision.ShadowVerdict == memproxy.Deny && screened == 11, "shadow mode: %+v, screened %d times", a.Decision, screened)
}
