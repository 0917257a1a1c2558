package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// By default, memories of a governed field live thirty days. Writing one again confirms
// it and restarts the thirty days: it is shown longer than unconfirmed ones, and
// expires thirty days after the last confirmation.
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
	r.do("PUT", "/memories/"+kept, `{"text":"The tests run in four minutes."}`).want(t, 200)
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

// A field's time to live applies however its name is spelled, by whichever member, and
// from the moment a memory is moved to the field.
//
// Proves SYN-9
func TestFieldLifetimesApplyToEverySpelling(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", `memories: {ttl: {Format: 10d, tone: 20d}}`)
	ends := func(what, id string, at time.Time) {
		t.Helper()
		ring.Until(r.t, what, func() bool { return r.stands(id).Expires.Sub(at).Abs() < time.Hour })
	}
	for name, tc := range map[string]struct {
		filed string
		days  time.Duration
	}{
		"another case":                  {`{"field":" FORMAT "}`, 10},
		"the second of two members":     {`{"field":"project","category":"format"}`, 10},
		"one of a list":                 {`{"categories":["project","tone"]}`, 20},
		"of two times the shorter":      {`{"field":"tone","categories":["format"]}`, 10},
		"the field of the built-in set": {`{"field":"project","category":"Learnings"}`, 30},
	} {
		id := r.written("The "+name+" is a note.", `,"metadata":`+tc.filed)
		ends(name, id, clock.Now().Add(tc.days*day))
	}
	moved := r.written("The valve sticks.", `,"metadata":{"field":"project"}`)
	begun := clock.Now()
	move := func(field string, want time.Duration) {
		t.Helper()
		clock.Pass(day)
		r.do("PUT", "/v1/memories/"+moved+"/", `{"metadata":{"field":"`+field+`"}}`).want(t, 200)
		ends("moved to "+field, moved, begun.Add(want*day))
	}
	move("tone", 21)
	move("format", 12)
	move("tone", 12)
	move("project", 12)
}

// An expired memory is left out by the clock, on reads of one, of many and of derived
// texts, before the background job has marked it.
//
// Proves SYN-9
func TestExpiryDoesNotDependOnTheJob(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", `memories: {validate: 0, ttl: {format: 1h}}`)
	id := r.written("The drill hums.", `,"metadata":{"field":"format"}`)
	ring.Until(r.t, "its end", func() bool { return !r.stands(id).Expires.IsZero() })
	for _, over := range []bool{false, true} {
		for _, q := range [][3]string{
			{"GET", "/memories/" + id}, {"GET", "/memories?user_id=ann"}, {"GET", "/memories/" + id + "/history"},
			{"POST", "/search", `{"query":"drill","filters":{"user_id":"ann"}}`}, {"POST", "/v1/summary/", `{"filters":{"user_id":"ann"}}`},
		} {
			if a := r.do(q[0], q[1], q[2]); strings.Contains(a.body, "hums") == over {
				t.Errorf("over: %v, %s: %d %s", over, q[1], a.status, a.body)
			}
		}
		clock.Pass(time.Hour)
	}
}
