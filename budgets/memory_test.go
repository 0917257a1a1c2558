package budgets_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
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
	if _, err := budgets.NewMemory(path); err == nil {
		t.Error("a corrupt file was taken for an empty one")
	}
}

// If a total cannot be persisted the charge fails.
func TestChargeFailsWhenTheFileIsGone(t *testing.T) {
	m := open(t, filepath.Join(t.TempDir(), "budgets.jsonl"))
	must.Do(t, m.Close())
	c := memproxy.Charge{ID: "1", Cost: 1, Time: budgettest.NewClock().Now(), Lines: []memproxy.Line{{Key: "k", Window: memproxy.WindowTotal, Limit: 5}}}
	if _, err := m.Charge(t.Context(), c); err == nil {
		t.Error("charged without a record")
	}
	c.ID, c.Lines = "2", []memproxy.Line{{Key: "k", Window: memproxy.WindowHour, Limit: 5}}
	if _, err := m.Charge(t.Context(), c); err != nil {
		t.Errorf("an hour needs no file: %v", err)
	}
}

// The file is compacted as it grows.
func TestTotalsFileIsShortened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budgets.jsonl")
	m := open(t, path)
	c := memproxy.Charge{Tenant: "acme", Cost: 1, Time: budgettest.NewClock().Now(), Lines: []memproxy.Line{{Key: "k", Window: memproxy.WindowTotal, Limit: -1}}}
	const writes = 10_100
	for i := range writes {
		c.ID = strconv.Itoa(i)
		must.Get(m.Charge(t.Context(), c))(t)
	}
	if f, err := os.Stat(path); err != nil || f.Size() > 10_000 {
		t.Errorf("%d bytes, %v", f.Size(), err)
	}
	m = open(t, path)
	c.ID = "last"
	if a, err := m.Charge(t.Context(), c); err != nil || a.Lines[0].Used != writes+1 {
		t.Errorf("%+v, %v", a, err)
	}
}
