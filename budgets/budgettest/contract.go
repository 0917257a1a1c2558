// Package budgettest is the contract of budget stores, as a test.
//
// Stores that pass Run are interchangeable: the gate cannot tell them apart.
package budgettest

import (
	"context"
	"fmt"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/internal/must"
)

// Open returns an empty store that is closed with the test.
type Open func(t *testing.T, clock *Clock) budgets.Store

// Run tests a store against the contract. It calls open once for each subtest.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"AllOrNothing", allOrNothing},
		{"SameIDChargesOnce", sameIDChargesOnce},
		{"RefusedIDMayTryAgain", refusedIDMayTryAgain},
		{"HourSlides", hourSlides},
		{"HourIsGivenBack", hourIsGivenBack},
		{"HourOfAWrongClock", hourOfAWrongClock},
		{"TotalsDoNotRollOver", totalsDoNotRollOver},
		{"ReleaseLowersTotals", releaseLowersTotals},
		{"ReleaseIsIdempotent", releaseIsIdempotent},
		{"ReleaseNeverGoesBelowZero", releaseNeverGoesBelowZero},
		{"ReleaseLeavesSoftLines", releaseLeavesSoftLines},
		{"WarnsOnceAtFourFifths", warnsOnce},
		{"SoftLinesNeverRefuse", softLinesNeverRefuse},
		{"UnlimitedLinesAreCounted", unlimitedLinesAreCounted},
		{"CostOfMany", costOfMany},
		{"CostOfNothing", costOfNothing},
		{"ManyLines", manyLines},
		{"LatestResetRefuses", latestResetRefuses},
		{"WrittenIsChargedPastLimits", writtenIsCharged},
		{"WrittenIsChargedOnce", writtenOnce},
		{"OverdraftsStopTheNext", overdrafts},
		{"PeeksDrawNothing", peeks},
		{"TenantsAreApart", tenantsAreApart},
		{"OddNames", oddNames},
		{"BadChargesAreErrors", badChargesAreErrors},
		{"LimitIsExactUnderLoad", exactUnderLoad},
		{"SameIDUnderLoad", sameIDUnderLoad},
		{"LinesAgreeUnderLoad", linesAgreeUnderLoad},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := NewClock()
			c.test(t, &bench{t: t, Clock: clock, store: open(t, clock)})
		})
	}
}

// bench is a store under test, with helpers that fail the test.
type bench struct {
	*Clock
	t     *testing.T
	store budgets.Store
	n     int
}

func hour(key string, limit int64) memproxy.Line {
	return memproxy.Line{Reason: memproxy.BudgetHour, Key: key, Window: memproxy.WindowHour, Limit: limit}
}

func total(key string, limit int64) memproxy.Line {
	return memproxy.Line{Reason: memproxy.BudgetTotal, Key: key, Window: memproxy.WindowTotal, Limit: limit}
}

func rapid(key string, limit int64) memproxy.Line {
	return memproxy.Line{Reason: memproxy.RapidWrites, Key: key, Window: memproxy.WindowMinute, Limit: limit, Soft: true}
}

// ask makes a charge with a unique id.
func (b *bench) ask(cost int64, lines ...memproxy.Line) memproxy.Charge {
	b.n++
	return memproxy.Charge{ID: fmt.Sprintf("decision-%d", b.n), Tenant: "acme", Cost: cost, Lines: lines, Time: b.Now()}
}

func (b *bench) charge(c memproxy.Charge) memproxy.Allowance {
	b.t.Helper()
	a, err := b.store.Charge(context.Background(), c)
	must.Do(b.t, err, "charge", c.ID)
	must.Len(b.t, a.Lines, len(c.Lines), "charge", c.ID)
	for i := range c.Lines {
		must.Equal(b.t, a.Lines[i].Line, c.Lines[i], "state", i, "is of line")
	}
	if a.Granted != (a.Refused == -1) {
		b.t.Fatalf("granted %v, refused %d", a.Granted, a.Refused)
	}
	return a
}

// grant makes a charge and expects it to be granted with these counts.
func (b *bench) grant(c memproxy.Charge, used ...int64) memproxy.Allowance {
	b.t.Helper()
	a := b.charge(c)
	if !a.Granted {
		b.t.Fatalf("charge %s of %d was refused by %+v", c.ID, c.Cost, a.Lines[a.Refused])
	}
	b.used(a, used)
	return a
}

// refuse makes a charge and expects line i to refuse it, with these counts.
func (b *bench) refuse(c memproxy.Charge, i int, used ...int64) memproxy.Allowance {
	b.t.Helper()
	a := b.charge(c)
	if a.Granted || a.Refused != i {
		b.t.Fatalf("charge %s of %d: granted %v, refused by %d, want %d", c.ID, c.Cost, a.Granted, a.Refused, i)
	}
	b.used(a, used)
	if s := a.RetryAfter(b.Now()); s < 1 {
		b.t.Fatalf("Retry-After %d", s)
	}
	return a
}

func (b *bench) used(a memproxy.Allowance, want []int64) {
	b.t.Helper()
	for i := range want {
		must.Equal(b.t, a.Lines[i].Used, want[i], "line", i, a.Lines[i].Key, a.Lines[i].Window, "used")
	}
}

func (b *bench) release(c memproxy.Charge) {
	b.t.Helper()
	must.Do(b.t, b.store.Release(context.Background(), c), "release", c.ID)
}
