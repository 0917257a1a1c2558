package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// What is written to a governed field is kept for thirty days where nothing is
// configured. Saying it again is a confirmation and counts the thirty days anew:
// it is shown after what was not confirmed no longer is, and ends thirty days
// after it was last said.
//
// Proves SYN-9
func TestConfirmationsRenewGovernedFields(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", "")
	begun := clock.Now()
	kept := r.written("The tests run in four minutes.", `,"metadata":{"field":"learnings"}`)
	left := r.written("The build needs a compiler.", `,"metadata":{"field":"learnings"}`)
	free := r.written("Ann likes green tea.", "")
	lasts := func(id string, until time.Duration) {
		t.Helper()
		ring.Until(r.t, fmt.Sprintf("an end on day %d", until/day), func() bool {
			return r.stands(id).Expires.Sub(begun.Add(until)).Abs() < time.Hour
		})
	}
	shown := func(want ...string) {
		t.Helper()
		r.once("upkeep", clock.Now())
		list := r.listed()
		for _, text := range []string{"four minutes", "compiler", "green tea"} {
			if strings.Contains(list, text) != strings.Contains(strings.Join(want, " "), text) {
				t.Errorf("day %d: %q in %s", clock.Now().Sub(begun)/day, text, list)
			}
		}
	}
	lasts(kept, 30*day)
	lasts(left, 30*day)
	ring.Until(r.t, "no end", func() bool { st := r.stands(free); return st.ID != "" && st.Expires.IsZero() })
	clock.Pass(20 * day)
	if a := r.do("PUT", "/memories/"+kept, `{"text":"The tests run in four minutes."}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	lasts(kept, 50*day)
	clock.Pass(9 * day)
	shown("four minutes", "compiler", "green tea")
	clock.Pass(2 * day)
	shown("four minutes", "green tea")
	clock.Pass(18 * day)
	shown("four minutes", "green tea")
	clock.Pass(2 * day)
	shown("green tea")
}
