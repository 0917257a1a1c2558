package budgets_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-4, TRL-6, TRL-8: the in-process store passes the contract.
func TestMemoryKeepsTheContract(t *testing.T) {
	budgettest.Run(t, func(t *testing.T, _ *budgettest.Clock) budgets.Store {
		return open(t, "")
	})
}

// Proves TRL-6: so does the store with totals in a file.
func TestMemoryWithFileKeepsTheContract(t *testing.T) {
	budgettest.Run(t, func(t *testing.T, _ *budgettest.Clock) budgets.Store {
		return open(t, filepath.Join(t.TempDir(), "budgets.jsonl"))
	})
}

func open(t *testing.T, path string) *budgets.Memory {
	t.Helper()
	m := must.Get(budgets.NewMemory(path))(t)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// Proves TRL-6: totals survive a restart; hours need not.
func TestTotalsSurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "budgets.jsonl")
	at := budgettest.NewClock().Now()
	line := memproxy.Line{Reason: memproxy.BudgetTotal, Key: "principal/a", Window: memproxy.WindowTotal, Limit: 10}
	hour := memproxy.Line{Reason: memproxy.BudgetHour, Key: "principal/a", Window: memproxy.WindowHour, Limit: 10}
	charge := func(m *budgets.Memory, id string, cost, want int64) {
		t.Helper()
		a, err := m.Charge(t.Context(), memproxy.Charge{ID: id, Tenant: "acme", Cost: cost, Time: at, Lines: []memproxy.Line{line, hour}})
		if err != nil || !a.Granted || a.Lines[0].Used != want {
			t.Fatalf("%s: %+v, %v; want %d used", id, a, err, want)
		}
	}
	m := open(t, path)
	charge(m, "1", 4, 4)
	charge(m, "2", 3, 7)
	must.Do(t, m.Release(t.Context(), memproxy.Charge{ID: "3", Tenant: "acme", Cost: 2, Time: at, Lines: []memproxy.Line{line}}))
	// The process is killed: nothing is closed, and the last line is torn.
	f := must.Get(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))(t)
	must.Get(f.WriteString(`{"t":"acme","k":"princ`))(t)
	m = open(t, path)
	charge(m, "4", 5, 10)
	a, err := m.Charge(t.Context(), memproxy.Charge{ID: "5", Tenant: "acme", Cost: 1, Time: at, Lines: []memproxy.Line{line}})
	if err != nil || a.Granted {
		t.Errorf("above the total after a restart: %+v, %v", a, err)
	}
	must.Do(t, m.Close())
	// A corrupt file prevents the start.
	must.Do(t, os.WriteFile(path, []byte("not totals\nat all\n"), 0o600))
	expect.Error(t, expect.Err(budgets.NewMemory(path)), "a corrupt file was taken for an empty one")
}

// Proves CARD-4: the result of a call from before the outage does not end it: debts
// would be sent to a store that is down, and lost.
func TestEarlierResultsDoNotEndAnOutage(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(context.Context) error {
		close(entered)
		<-release
		return nil
	})
	early, late := r.ask(1, 40), r.ask(1, 40)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.charge(early, true, false)
	}()
	<-entered
	r.remote.set(down)
	r.charge(late, true, true)
	close(release)
	<-done
	if !r.d.Degraded() {
		t.Error("a late answer brought the store back")
	}
	if away, back := r.changed(); away != 1 || back != 0 {
		t.Errorf("%d times away, %d times back; want once and never", away, back)
	}
}

// Proves TRL-6, CARD-4: writes beyond their reservation during an outage count against
// the share at once, and against the shared limit after the recovery.
func TestSettlementsAreOwed(t *testing.T) {
	r := newRig(t, down)
	r.charge(r.ask(1, 100), true, true)
	more := r.ask(150, 100)
	more.Written = true
	r.charge(more, true, true)
	r.charge(r.ask(1, 100), false, true)
	r.remote.set(nil)
	r.Advance(time.Second)
	r.charge(r.ask(0, 100), true, false)
	r.arrived(3)
	expect.Equal(t, r.charge(r.ask(1, 100), false, false).Lines[0].Used, 151, "used")
}

// Proves TRL-6: 100 an hour and 10,000 in all, anonymous 10 and 100, overrides per
// principal, and which lines a write draws on.
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
			"budget.hour user/agent:a/bob hour 100; budget.total user/agent:a/bob total 10000; budget.hour principal/agent:a hour 1000; budget.total principal/agent:a total 100000; " + fmt.Sprintf(rapid, "agent:a")},
		{"a human too", p("human:h", memproxy.TrustHuman, ""), memproxy.Learn, nil,
			"budget.hour user/human:h/bob hour 100; budget.total user/human:h/bob total 10000; budget.hour principal/human:h hour 1000; budget.total principal/human:h total 100000; " + fmt.Sprintf(rapid, "human:h")},
		{"anonymous", p("workload:x", memproxy.TrustAnonymous, ""), memproxy.Learn, nil,
			"budget.hour principal/workload:x hour 10; budget.total principal/workload:x total 100; " + fmt.Sprintf(rapid, "workload:x")},
		{"an override inherits the rest", p("agent:ci", memproxy.TrustAuthenticated, ""), memproxy.Learn, nil,
			"budget.hour user/agent:ci/bob hour 500; budget.total user/agent:ci/bob total 10000; budget.hour principal/agent:ci hour 5000; budget.total principal/agent:ci total 100000; " + fmt.Sprintf(rapid, "agent:ci")},
		{"and from its own row", p("workload:any", memproxy.TrustAnonymous, ""), memproxy.Learn, nil,
			"budget.hour principal/workload:any hour 20; budget.total principal/workload:any total 100; " + fmt.Sprintf(rapid, "workload:any")},
		{"the total alone", p("agent:old", memproxy.TrustAuthenticated, ""), memproxy.Learn, nil,
			"budget.hour user/agent:old/bob hour 100; budget.total user/agent:old/bob total 7; budget.hour principal/agent:old hour 1000; budget.total principal/agent:old total 70; " + fmt.Sprintf(rapid, "agent:old")},
		{"a correction adds nothing", p("agent:a", memproxy.TrustAuthenticated, "acme"), memproxy.Correct, []string{"gotchas"},
			"budget.hour user/agent:a/bob hour 100; budget.hour principal/agent:a hour 1000; budget.tenant tenant/acme hour 1000; " + fmt.Sprintf(rapid, "agent:a")},
		{"a tenant", p("agent:a", memproxy.TrustAuthenticated, "acme"), memproxy.Learn, nil,
			"budget.hour user/agent:a/bob hour 100; budget.total user/agent:a/bob total 10000; budget.hour principal/agent:a hour 1000; budget.total principal/agent:a total 100000; budget.tenant tenant/acme hour 1000; budget.tenant tenant/acme total 50000; " + fmt.Sprintf(rapid, "agent:a")},
		{"any tenant", p("agent:a", memproxy.TrustAuthenticated, "globex"), memproxy.Learn, nil,
			"budget.hour user/agent:a/bob hour 100; budget.total user/agent:a/bob total 10000; budget.hour principal/agent:a hour 1000; budget.total principal/agent:a total 100000; budget.tenant tenant/globex hour 300; " + fmt.Sprintf(rapid, "agent:a")},
		{"fields", p("agent:a", memproxy.TrustAuthenticated, ""), memproxy.Learn, []string{"empty", "gotchas", "learnings", "other"},
			"budget.hour user/agent:a/bob hour 100; budget.total user/agent:a/bob total 10000; budget.hour principal/agent:a hour 1000; budget.total principal/agent:a total 100000; budget.namespace namespace/gotchas total 40; budget.namespace namespace/learnings hour 5; " + fmt.Sprintf(rapid, "agent:a")},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := budgets.Lines(limits, c.p, c.kind, "bob", c.fields)
			var got []string
			for _, l := range lines {
				s := fmt.Sprintf("%s %s %s %d", l.Reason, l.Key, l.Window, l.Limit)
				if l.Soft {
					s += " soft"
				}
				got = append(got, s)
			}
			expect.Equal(t, strings.Join(got, "; "), c.want, "lines")
			q := memproxy.Charge{ID: "1", Tenant: c.p.Tenant, Cost: 1, Lines: lines, Time: budgettest.NewClock().Now()}
			expect.OK(t, budgets.Check(q))
		})
	}
	limits.RapidPerMinute = 0
	if slices.ContainsFunc(budgets.Lines(limits, p("a", memproxy.TrustHuman, ""), memproxy.Learn, "", nil), func(l memproxy.Line) bool { return l.Soft }) {
		t.Error("a rush is counted though it is switched off")
	}
}

// Proves TRL-6: every principal that identity accepts has budgets, however long its id is
// once it is escaped, and no two share one.
func TestLongIDsHaveBudgets(t *testing.T) {
	keys := map[string]bool{}
	for _, id := range []string{"oidc:" + strings.Repeat("é", 127), "spiffe://example.org" + strings.Repeat("/a", 230), strings.Repeat("é", 400) + "a", strings.Repeat("é", 400) + "b"} {
		for _, user := range []string{"", "bob", strings.Repeat("ü", 512)} {
			lines := budgets.Lines(memproxy.DefaultLimits(), memproxy.Principal{ID: id, Trust: memproxy.TrustAuthenticated}, memproxy.Learn, user, nil)
			expect.OK(t, budgets.Check(memproxy.Charge{ID: "1", Cost: 1, Lines: lines, Time: budgettest.NewClock().Now()}), id, user)
			keys[lines[0].Key], keys[lines[2].Key] = true, true
		}
	}
	expect.Len(t, keys, 4*3+4)
}

// Proves TRL-6: limits apply per caller and end user, with a higher one for all end
// users together; no name collides with another account.
func TestLinesOfEndUsers(t *testing.T) {
	limits := memproxy.DefaultLimits()
	limits.RapidPerMinute = 0
	store := must.Get(budgets.NewMemory(""))(t)
	n := 0
	write := func(p memproxy.Principal, user string) bool {
		n++
		a := must.Get(store.Charge(t.Context(), memproxy.Charge{ID: fmt.Sprint(n), Cost: 1, Time: budgettest.NewClock().Now(), Lines: budgets.Lines(limits, p, memproxy.Learn, user, nil)}))(t)
		return a.Granted
	}
	app := memproxy.Principal{ID: "app", Trust: memproxy.TrustAuthenticated}
	for u := range 10 {
		for i := range 101 {
			if got := write(app, fmt.Sprint("user ", u)); got != (i < 100) {
				t.Fatalf("user %d, write %d: %v", u, i, got)
			}
		}
	}
	if write(app, "one more") {
		t.Error("the key's own bound does not hold: 1,001 in an hour")
	}
	other := memproxy.Principal{ID: "app/one", Trust: memproxy.TrustAuthenticated}
	if !write(other, "more") || !write(memproxy.Principal{ID: "quiet", Trust: memproxy.TrustAuthenticated}, "") {
		t.Error("another caller has no room")
	}
	// Anonymous callers do not get more budget by naming users.
	nobody := memproxy.Principal{ID: "anonymous", Trust: memproxy.TrustAnonymous}
	for i := range 11 {
		if got := write(nobody, fmt.Sprint("user ", i)); got != (i < 10) {
			t.Errorf("anonymous, write %d: %v", i, got)
		}
	}
	limits.PrincipalFactor = 1
	one := budgets.Lines(limits, app, memproxy.Learn, "u", nil)
	if len(one) != 2 || one[0].Limit != 100 || one[0].Key != "principal/app" {
		t.Errorf("together once: %v", one)
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
		expect.Equal(t, a.RetryAfter(now), c.want, c.wait)
	}
	for name, a := range map[string]memproxy.Allowance{
		"a total": {Refused: 0, Lines: []memproxy.LineState{{}}}, "granted": {Granted: true, Refused: -1}, "beyond": {Refused: 3},
	} {
		expect.Equal(t, a.RetryAfter(now), 3600, name)
	}
}

// Proves TRL-6: a refusal says when its minute ends, and the next one begins there.
func TestSlot(t *testing.T) {
	at := time.Date(2031, 3, 14, 12, 59, 59, 999_999_999, time.FixedZone("half", 5*3600+1800))
	_, reset := budgets.WindowIndex(memproxy.WindowMinute, at)
	if want := time.Date(2031, 3, 14, 7, 30, 0, 0, time.UTC); !reset.Equal(want) || reset.Location() != time.UTC {
		t.Errorf("the minute ends at %v, want %v, in UTC", reset, want)
	}
	before, _ := budgets.WindowIndex(memproxy.WindowMinute, reset.Add(-1))
	after, _ := budgets.WindowIndex(memproxy.WindowMinute, reset)
	if after != before+1 {
		t.Errorf("slots %d and %d", before, after)
	}
}

// Proves TRL-1, TRL-6: callers without a credential are charged per address, and all of
// them together. Their accounts follow from their ids alone, as when a deletion
// refunds.
func TestLinesOfAnonymousSessions(t *testing.T) {
	limits := memproxy.DefaultLimits()
	limits.RapidPerMinute = 0
	limits.Overrides = map[string]memproxy.WriteLimit{"public": {PerHour: 20}}
	address := strings.Repeat("0a", 8)
	id := memproxy.AnonymousID(address, strings.Repeat("1c", 8))
	keys := func(p memproxy.Principal) (out []string) {
		for _, l := range budgets.Lines(limits, p, memproxy.Learn, "bob", nil) {
			out = append(out, fmt.Sprintf("%s %s %d", l.Key, l.Window, l.Limit))
		}
		return out
	}
	got := keys(memproxy.Principal{ID: id, Group: "public", Trust: memproxy.TrustAnonymous})
	want := []string{
		"principal/anonymous:" + address + " hour 20", "principal/anonymous:" + address + " total 100",
		"principal/anonymous hour 200", "principal/anonymous total 1000",
	}
	expect.List(t, got, want)
	got = keys(memproxy.Principal{ID: id, Trust: memproxy.TrustAnonymous})
	want[0], want[2] = strings.Replace(want[0], "20", "10", 1), strings.Replace(want[2], "200", "100", 1)
	expect.List(t, got, want, "by its id alone")
}
