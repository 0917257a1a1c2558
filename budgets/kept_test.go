package budgets_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-6: a charge that cannot be written to the file of totals fails and is not
// counted, and Ping reports the file; what was already written is counted all the same.
func TestChargesThatCannotBeKept(t *testing.T) {
	m := must.Get(budgets.NewMemory(filepath.Join(t.TempDir(), "budgets.jsonl")))(t)
	c := memproxy.Charge{Tenant: "acme", Cost: 1, Time: time.Unix(7200, 0), Lines: []memproxy.Line{
		{Key: "principal/a", Window: memproxy.WindowHour, Limit: 10}, {Key: "principal/a", Window: memproxy.WindowTotal, Limit: 10}}}
	used := func() int64 {
		c := c
		c.ID, c.Peek = "look", true
		a := must.Get(m.Charge(t.Context(), c))(t)
		return a.Lines[0].Used*10 + a.Lines[1].Used
	}
	charge := func(id string, written bool) error {
		c := c
		c.ID, c.Written = id, written
		return expect.Err(m.Charge(t.Context(), c))
	}
	must.Do(t, charge("1", false))
	must.Do(t, m.Ping(t.Context()))
	must.Do(t, m.Close()) // from now on the file takes nothing
	for _, id := range []string{"2", "3", "2"} {
		expect.Error(t, charge(id, false), id)
	}
	expect.Equal(t, used(), 11)
	expect.Error(t, m.Ping(t.Context()))
	expect.Error(t, charge("made", true))
	expect.Equal(t, used(), 22)
	c.ID, c.Lines = "4", c.Lines[:1]
	expect.OK(t, expect.Err(m.Charge(t.Context(), c)), "an hour needs no file")
}
