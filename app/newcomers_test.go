package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves TRL-9: a new caller's writes wait for review, visible to their author only,
// until enough of them were released or the caller has been known for long enough.
func TestWritesOfNewCallersWait(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]func(r *rig, clock *ledgertest.Clock, first []string){
		"two were let out": func(r *rig, clock *ledgertest.Clock, first []string) {
			for _, id := range first {
				r.does("memory", "promote", "--backend", "mem0", "--reason", "it is so", id)
			}
			clock.Pass(time.Minute) // track records are cached
		},
		"it has been known for three days": func(r *rig, clock *ledgertest.Clock, first []string) { clock.Pass(72 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			clock := ledgertest.NewClock()
			r := startAt(t, clock.Now, strings.Replace(screeningConf, "\nSCREENING", anotherKey, 1),
				"SCREENING", "memories: {new: {configured: true, accepted: 2, age: 3d}}"+reviewers())
			other := r.with(another)
			var first []string
			for n := range 2 {
				text := fmt.Sprintf("Ann keeps %d bees.", n+2)
				id := r.written(text, "")
				first = append(first, id)
				if a := r.do("GET", "/memories/"+id, ""); a.status != 200 || !strings.Contains(r.listed(), text) {
					t.Errorf("its author does not see it: %d, listed %s", a.status, r.listed())
				}
				if a := other.do("GET", "/memories/"+id, ""); a.status != 404 || strings.Contains(other.listed(), text) {
					t.Errorf("another sees it: %d, listed %s", a.status, other.listed())
				}
			}
			known(r, clock, first)
			id := r.written("Ann keeps ducks now.", "")
			if a := other.do("GET", "/memories/"+id, ""); a.status != 200 || !strings.Contains(other.listed(), "ducks") {
				t.Errorf("no longer new, and another does not see it: %d, listed %s", a.status, other.listed())
			}
			if other.written("Bert keeps geese.", ""); strings.Contains(r.listed(), "geese") {
				t.Errorf("another caller is not new: %s", r.listed())
			}
		})
	}
}

// Proves TRL-4, TRL-3: a track record earns the higher tier: enough validated memories,
// over enough time, with few enough corrections; another caller does not benefit.
func TestTrustTiersAreEarned(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, withPeople(screeningConf), replacements("SCREENING", "  established: {facts: 4, age: 1d, corrected: 0.1}")...)
	given := func(who string) float64 {
		t.Helper()
		_, c, _ := r.fact(r.note(who, "Ann plays go on "+fmt.Sprint(r.back.count())+".", `,"metadata":{"confidence":0.95}`))
		return c
	}
	for n := range 4 {
		if c := given(""); c != 0.7 {
			t.Errorf("fact %d: %v, want the tier's 0.7", n, c)
		}
	}
	clock.Pass(time.Hour)
	if c := given(""); c != 0.7 {
		t.Errorf("after an hour: %v, want 0.7", c)
	}
	clock.Pass(24 * time.Hour)
	if c := given(""); c != 0.7 {
		t.Errorf("after a day, and nobody looked at them: %v, want 0.7", c)
	}
	r.looksAt(clock)
	if c := given(""); c != 0.9 {
		t.Errorf("after a day: %v, want the established 0.9", c)
	}
	if rec := r.audit("--principal", "agent:dev", "--last", "1"); !strings.Contains(rec, `"trust":"established"`) {
		t.Errorf("recorded %s", rec)
	}
	if c := given("peer"); c != 0.7 {
		t.Errorf("another gives %v", c)
	}
	r.corrected("", 1)
	if c := given(""); c >= 0.7 {
		t.Errorf("corrected once in seven: %v, want less than 0.7", c)
	}
}

// looksAt runs the background validation.
func (r *rig) looksAt(clock *ledgertest.Clock) {
	r.t.Helper()
	r.once("upkeep", clock.Now())
	clock.Pass(time.Minute) // track records are cached
}

// Proves TRL-4, TRL-9: memories that wait for review, were held, or are quarantined
// earn no trust, however many and old; once released by a reviewer, they do.
func TestUnreviewedMemoriesEarnNoTrust(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", "  established: {facts: 3, age: 1d, corrected: 0.1}\nmemories: {pending: [authenticated]}"+reviewers())
	given := func() float64 {
		t.Helper()
		_, c, _ := r.fact(r.written("Ann plays go on "+fmt.Sprint(r.back.count())+".", `,"metadata":{"confidence":0.95}`))
		return c
	}
	var waiting []string
	for n := range 5 {
		waiting = append(waiting, r.written(fmt.Sprintf("Ann keeps %d bees.", n+2), ""))
		r.do("POST", "/memories", noted(fmt.Sprintf("%s Case %d.", suspicious, n))) // held
	}
	clock.Pass(48 * time.Hour)
	r.looksAt(clock)
	if c := given(); c != 0.7 {
		t.Errorf("while all of it waits: %v, want the tier's 0.7", c)
	}
	promote := func(id string) {
		t.Helper()
		r.does("memory", "promote", "--backend", "mem0", "--reason", "it is so", id)
		r.looksAt(clock)
	}
	promote(waiting[0])
	promote(waiting[1])
	if c := given(); c != 0.7 {
		t.Errorf("two of three were let out: %v, want 0.7", c)
	}
	promote(waiting[2])
	if c := given(); c != 0.9 {
		t.Errorf("three were let out: %v, want the established 0.9", c)
	}
}
