package budgets_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
)

// Proves TRL-6: 100 an hour and 10,000 in all, anonymous 10 and 100, overrides
// per principal, and which lines a write draws on.
func TestLines(t *testing.T) {
	limits := memproxy.DefaultLimits()
	limits.Overrides = map[string]memproxy.WriteLimit{"agent:ci": {PerHour: 500}, "agent:old": {Total: 7}, "workload:any": {PerHour: 20}}
	limits.Tenants = map[string]memproxy.WriteLimit{"acme": {PerHour: 1000, Total: 50_000}, "*": {PerHour: 300}}
	limits.Namespaces = map[string]memproxy.WriteLimit{"gotchas": {Total: 40}, "learnings": {PerHour: 5}, "empty": {}}
	p := func(id string, trust memproxy.Trust, tenant string) memproxy.Principal {
		return memproxy.Principal{ID: id, Trust: trust, Tenant: tenant}
	}
	const rapid = "budget.rapid_writes principal/%s minute 30 soft"
	for _, c := range []struct {
		name   string
		p      memproxy.Principal
		kind   memproxy.Kind
		fields []string
		want   string
	}{
		{"default", p("agent:a", memproxy.TrustAuthenticated, ""), memproxy.Learn, nil,
			"budget.hour principal/agent:a hour 100; budget.total principal/agent:a total 10000; " + fmt.Sprintf(rapid, "agent:a")},
		{"a human too", p("human:h", memproxy.TrustHuman, ""), memproxy.Learn, nil,
			"budget.hour principal/human:h hour 100; budget.total principal/human:h total 10000; " + fmt.Sprintf(rapid, "human:h")},
		{"anonymous", p("workload:x", memproxy.TrustAnonymous, ""), memproxy.Learn, nil,
			"budget.hour principal/workload:x hour 10; budget.total principal/workload:x total 100; " + fmt.Sprintf(rapid, "workload:x")},
		{"an override inherits the rest", p("agent:ci", memproxy.TrustAuthenticated, ""), memproxy.Learn, nil,
			"budget.hour principal/agent:ci hour 500; budget.total principal/agent:ci total 10000; " + fmt.Sprintf(rapid, "agent:ci")},
		{"and from its own row", p("workload:any", memproxy.TrustAnonymous, ""), memproxy.Learn, nil,
			"budget.hour principal/workload:any hour 20; budget.total principal/workload:any total 100; " + fmt.Sprintf(rapid, "workload:any")},
		{"the total alone", p("agent:old", memproxy.TrustAuthenticated, ""), memproxy.Learn, nil,
			"budget.hour principal/agent:old hour 100; budget.total principal/agent:old total 7; " + fmt.Sprintf(rapid, "agent:old")},
		{"a correction adds nothing", p("agent:a", memproxy.TrustAuthenticated, "acme"), memproxy.Correct, []string{"gotchas"},
			"budget.hour principal/agent:a hour 100; budget.tenant tenant/acme hour 1000; " + fmt.Sprintf(rapid, "agent:a")},
		{"a tenant", p("agent:a", memproxy.TrustAuthenticated, "acme"), memproxy.Learn, nil,
			"budget.hour principal/agent:a hour 100; budget.total principal/agent:a total 10000; budget.tenant tenant/acme hour 1000; budget.tenant tenant/acme total 50000; " + fmt.Sprintf(rapid, "agent:a")},
		{"any tenant", p("agent:a", memproxy.TrustAuthenticated, "globex"), memproxy.Learn, nil,
			"budget.hour principal/agent:a hour 100; budget.total principal/agent:a total 10000; budget.tenant tenant/globex hour 300; " + fmt.Sprintf(rapid, "agent:a")},
		{"fields", p("agent:a", memproxy.TrustAuthenticated, ""), memproxy.Learn, []string{"empty", "gotchas", "learnings", "other"},
			"budget.hour principal/agent:a hour 100; budget.total principal/agent:a total 10000; budget.namespace namespace/gotchas total 40; budget.namespace namespace/learnings hour 5; " + fmt.Sprintf(rapid, "agent:a")},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := budgets.Lines(limits, c.p, c.kind, c.fields)
			var got []string
			for _, l := range lines {
				s := fmt.Sprintf("%s %s %s %d", l.Reason, l.Key, l.Window, l.Limit)
				if l.Soft {
					s += " soft"
				}
				got = append(got, s)
			}
			if s := strings.Join(got, "; "); s != c.want {
				t.Errorf("lines\n%s\nwant\n%s", s, c.want)
			}
			q := memproxy.Charge{ID: "1", Tenant: c.p.Tenant, Cost: 1, Lines: lines, Time: budgettest.NewClock().Now()}
			if err := budgets.Check(q); err != nil {
				t.Error(err)
			}
		})
	}
	limits.RapidPerMinute = 0
	if slices.ContainsFunc(budgets.Lines(limits, p("a", memproxy.TrustHuman, ""), memproxy.Learn, nil), func(l memproxy.Line) bool { return l.Soft }) {
		t.Error("a rush is counted though it is switched off")
	}
}

// Proves TRL-6: the wait is in whole seconds, at least one, and rounded up.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2031, 3, 14, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		wait time.Duration
		want int
	}{{0, 1}, {-time.Hour, 1}, {1, 1}, {time.Second, 1}, {time.Second + 1, 2}, {59*time.Minute + 59*time.Second + 999*time.Millisecond, 3600}, {time.Hour, 3600}} {
		a := memproxy.Allowance{Refused: 1, Lines: []memproxy.LineState{{}, {Reset: now.Add(c.wait)}}}
		if got := budgets.RetryAfter(now, a); got != c.want {
			t.Errorf("%v: %d, want %d", c.wait, got, c.want)
		}
	}
	for name, a := range map[string]memproxy.Allowance{
		"a total": {Refused: 0, Lines: []memproxy.LineState{{}}}, "granted": {Granted: true, Refused: -1}, "beyond": {Refused: 3},
	} {
		if got := budgets.RetryAfter(now, a); got != 3600 {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestSlot(t *testing.T) {
	at := time.Date(2031, 3, 14, 12, 59, 59, 999_999_999, time.FixedZone("half", 5*3600+1800))
	_, reset := budgets.Slot(memproxy.WindowHour, at)
	if want := time.Date(2031, 3, 14, 8, 0, 0, 0, time.UTC); !reset.Equal(want) || reset.Location() != time.UTC {
		t.Errorf("the hour ends at %v, want %v: hours are UTC's", reset, want)
	}
	before, _ := budgets.Slot(memproxy.WindowHour, reset.Add(-1))
	after, _ := budgets.Slot(memproxy.WindowHour, reset)
	if after != before+1 {
		t.Errorf("slots %d and %d", before, after)
	}
}
