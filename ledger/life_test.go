package ledger_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves SYN-5, SYN-7, SYN-8, SYN-9, TRL-3, TRL-5, TRL-7, TRL-9, MFW-7, EDGE-5, EDGE-11.
func TestLife(t *testing.T) {
	for name, file := range map[string]string{"file": "ledger.db", "memory": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if file == "" {
				ring.Long(t, "the same steps as in a file, of fewer goroutines: readers and the writer share a connection")
			}
			ledgertest.RunLife(t, func(t *testing.T, opt ledger.Options) (one, other *ledger.Ledger) {
				if file != "" {
					opt.Path = filepath.Join(ring.Dir(t), file)
				}
				one = open(t, opt)
				return one, one
			})
		})
	}
}

// A time counts as reached if the clock showed it before the processes' last hour of
// running, whatever it showed in between; a time shown only by a clock that was ahead
// does not.
//
// Proves SYN-9
func TestUptimeOfShortProcesses(t *testing.T) {
	t.Parallel()
	const week, run = 7 * 24 * time.Hour, 5 * time.Minute
	clock, vault := ledgertest.NewClock(), ledgertest.Vault(t)
	start, path := clock.Now(), filepath.Join(ring.Dir(t), "ledger.db")
	processes := func(n int, between time.Duration) (came time.Duration) {
		t.Helper()
		for range n {
			clock.Pass(between)
			l := open(t, ledger.Options{Path: path, Clock: clock.Now, Vault: vault})
			for _, ran := range [...]time.Duration{0, run} {
				clock.Pass(ran)
				at := must.Get(l.Upkeep.AddRunTime(t.Context(), ran))(t)
				if came = -1; !at.IsZero() {
					came = at.Sub(start).Round(time.Minute)
				}
			}
			must.Do(t, l.Close())
		}
		return came
	}
	for _, tc := range []struct {
		what    string
		n       int
		between time.Duration
		want    time.Duration
	}{
		{"55 minutes in processes of a week", 11, week, -1},
		{"an hour", 1, week, week}, // the first process began then
		{"another", 12, week, 12*week + 12*run},
		{"ahead by a year", 1, 52 * week, 12*week + 12*run},
		{"and back", 1, -52 * week, 12*week + 12*run},
		{"55 minutes since", 10, 0, 12*week + 12*run},
		{"an hour since", 1, 0, 24*week + 25*run},
	} {
		expect.Equal(t, processes(tc.n, tc.between), tc.want, tc.what)
	}
	several := open(t, ledger.Options{Path: path, Clock: clock.Now, Vault: vault})
	for range 11 {
		clock.Pass(run)
		for range 3 {
			expect.Equal(t, must.Get(several.Upkeep.AddRunTime(t.Context(), run))(t).Before(clock.Now().Add(-50*time.Minute)), true, "three at once")
		}
	}
}
