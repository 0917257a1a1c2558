package app_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// written writes a memory and returns its id.
func (r *rig) written(text, more string) string {
	r.t.Helper()
	return r.do("POST", "/memories", strings.TrimSuffix(noted(text), "}")+more+"}").want(r.t, 200).id(r.t)
}

func (r *rig) listed() string {
	r.t.Helper()
	return r.do("GET", "/memories?user_id=ann", "").want(r.t, 200).body
}

func (r *rig) statusOf(id string) memproxy.Status {
	r.t.Helper()
	all := must.Get(ledger.ByID(context.Background(), r.car.Ledger, "mem0", memproxy.TargetMemory, id))(r.t)
	return all[id].Status
}

// Proves DOL-1, DOL-3, DOL-5: new memories are untrusted until background validation:
// those that look like attacks are quarantined and no longer shown, by id or in lists,
// the rest is validated. Each state has its way of being shown.
func TestStatesOfMemories(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "screening: {withhold: 0}\nmemories: {validate: 0}") // memories are withheld for their state only, not for their risk
	tea := r.written("Ann likes green tea.", "")
	ring.Until(r.t, "the state of a new memory", func() bool { return r.statusOf(tea).State == memproxy.StateUntrusted })
	// Written before a rule for it existed.
	bad := r.written("Ann has a cat.", "")
	r.versioned(bad)
	must.Do(t, r.car.Ledger.Commit(context.Background(), memproxy.Entry{Versions: []memproxy.Version{memproxy.Version{
		MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: bad}, Tenant: "acme", Op: memproxy.OpUpdate,
		Time: time.Now(), Actor: "agent:dev", Trust: memproxy.TrustAuthenticated, Attestation: memproxy.SelfReported, Decision: "d", Text: poison,
	}}}))
	r.behind("PUT", "/v1/memories/"+bad+"/", `{"text":"`+poison+`"}`) // written behind the proxy
	r.once("upkeep", time.Now())
	a, b := r.statusOf(tea).State, r.statusOf(bad).State
	must.Equal(t, a == memproxy.StateValidated && b == memproxy.StateQuarantined, true, a, "and", b)
	expect.Text(t, r.listed(), "listed").Has("green tea").Lacks("has a cat")
	r.do("GET", "/memories/"+bad, "").want(t, 404)

	set := func(id string, state memproxy.MemoryState, findings ...memproxy.Finding) {
		t.Helper()
		must.Get(r.car.Ledger.SetState(context.Background(), memproxy.StateChange{
			MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}, Tenant: "acme", State: state, Findings: findings, Text: memproxy.TextSHA256("Ann likes green tea."),
		}))(t)
	}
	set(tea, memproxy.StateFlagged, memproxy.Finding{Rule: "directive.x", Severity: "high", Start: 10, End: 19})
	expect.Text(t, r.listed(), "flagged").Lacks("green tea").Has("Ann likes [PATTERN_001].", "severity high, at 10, 9 bytes")
	set(tea, memproxy.StatePending) // shown to its author, see TestWritesOfNewCallersWait
	expect.Text(t, r.listed(), "pending").Has("likes")
	for _, state := range []memproxy.MemoryState{memproxy.StateExpired, memproxy.StateSuperseded, memproxy.StateQuarantined} {
		set(tea, state)
		expect.Text(t, r.listed(), state).Lacks("likes")
	}
	set(tea, memproxy.StateValidated)
	expect.Text(t, r.listed(), "validated").Has("Ann likes green tea.")
}

// another is a caller of the same tenant as the default caller.
const another = "m0-another-key"

var anotherKey = "\n    - {sha256: \"" + sha(another) + "\", id: \"agent:other\", kind: agent, trust: authenticated, tenant: acme, acts_as: \"*\"}\nSCREENING"

// After the clock was set forward or back, or the process has just started,
// irreversible upkeep waits for an hour of steady time: nothing is shown unreviewed,
// and nothing deleted.
//
// Proves SYN-9, TRL-9
func TestClockChangesDestroyNothing(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	clock, up := ledgertest.NewClock(), new(atomic.Int64)
	r := startRig(&rig{t: t, clock: clock.Now, since: func() time.Duration { return time.Duration(up.Load()) }},
		strings.Replace(screeningConf, "\nSCREENING", anotherKey, 1), "level: error", "level: warn", "SCREENING", "memories: {validate: 0, pending: [authenticated], quiet: 7d, archive: 10d, ttl: {learnings: 1h}}")
	pass := func(set, run time.Duration) {
		t.Helper()
		clock.Pass(set + run)
		up.Add(int64(run))
		r.once("upkeep", clock.Now())
		r.once("retention", clock.Now())
		r.once("records", clock.Now())
	}
	tea, short := r.written("Ann likes green tea.", ""), r.written("The build is slow.", `,"metadata":{"field":"learnings"}`)
	ring.Until(t, "its end", func() bool { return !r.statusOf(short).Expires.IsZero() })
	want := func(what string, shown, expired, gone bool) {
		t.Helper()
		there := r.behind("GET", "/memories?user_id=ann", "")
		expect.Equal(t, r.with(another).do("GET", "/memories/"+tea, "").status == 200, shown, what, "shown without review")
		marked := must.Get(r.car.Ledger.ListStatuses(t.Context(), memproxy.StatusFilter{State: memproxy.StateExpired, Limit: 10}))(t)
		is := slices.ContainsFunc(marked, func(st memproxy.Status) bool { return st.ID == short })
		expect.Equal(t, is == expired && strings.Contains(there, "slow") != gone, true, what, "marked", is, "there", strings.Contains(there, "slow"))
	}
	pass(month, time.Minute)
	want("set at the start", false, false, false)
	expect.Text(t, r.log.String(), "the log does not tell it").Has("the system clock was changed")
	pass(-month, time.Minute)
	pass(0, 59*time.Minute)
	want("set back less than an hour ago", false, false, false)
	pass(0, 2*time.Minute)
	want("an hour of one clock", false, true, false)
	pass(month, time.Minute)
	want("set again", false, true, false)
	pass(0, time.Hour)
	want("it stayed", true, false, true)
}

// Proves TRL-9: intervals shorter than an hour need no steady hour. A change by the author
// begins the interval again.
func TestShortIntervalsNeedNoUninterruptedHour(t *testing.T) {
	t.Parallel()
	clock, up := ledgertest.NewClock(), new(atomic.Int64)
	r := startRig(&rig{t: t, clock: clock.Now, since: func() time.Duration { return time.Duration(up.Load()) }},
		strings.Replace(screeningConf, "\nSCREENING", anotherKey, 1), "SCREENING", "memories: {validate: 0, pending: [authenticated], quiet: 10s}")
	tea := r.written("Ann likes green tea.", "")
	for _, tc := range []struct {
		change string
		run    time.Duration
		shown  bool
	}{
		{"", 9 * time.Second, false},
		{`{"text":"Ann likes black tea."}`, 2 * time.Second, false},
		{"", 7 * time.Second, false},
		{"", 2 * time.Second, true},
	} {
		if tc.change != "" {
			r.do("PUT", "/memories/"+tea, tc.change).want(t, 200)
			ring.Until(t, "its version", func() bool { return len(r.history(tea)) == 2 })
		}
		clock.Pass(tc.run)
		up.Add(int64(tc.run))
		r.once("upkeep", clock.Now())
		shown := r.with(another).do("GET", "/memories/"+tea, "").status == 200
		expect.Equal(t, shown, tc.shown, "after", tc.run, "more: shown")
	}
}

// Processes that run for less than an hour do due upkeep later, based on the time
// before their combined last hour. A clock that is ahead in one of them destroys
// nothing.
//
// Proves SYN-9, TRL-9
func TestShortLivedProcessesDoTheirUpkeep(t *testing.T) {
	t.Parallel()
	const day, run = 24 * time.Hour, 30 * time.Minute
	clock, up := ledgertest.NewClock(), new(atomic.Int64)
	r := startRig(&rig{t: t, clock: clock.Now, since: func() time.Duration { return time.Duration(up.Load()) }},
		strings.Replace(screeningConf, "\nSCREENING", anotherKey, 1), "level: error", "level: warn", "SCREENING", "memories: {validate: 0, pending: [authenticated], quiet: 7d, archive: 10d, ttl: {learnings: 1h}}")
	tea, short := r.written("Ann likes green tea.", ""), r.written("The build is slow.", `,"metadata":{"field":"learnings"}`)
	ring.Until(t, "its end", func() bool { return !r.statusOf(short).Expires.IsZero() })
	process := func(after time.Duration) (shown, gone bool) {
		clock.Pass(run)
		up.Add(int64(run))
		r.stop()
		clock.Pass(after)
		up.Store(0)
		r.run()
		for _, job := range [...]string{"upkeep", "upkeep", "retention", "records"} {
			r.once(job, clock.Now())
		}
		return r.with(another).do("GET", "/memories/"+tea, "").status == 200, !strings.Contains(r.behind("GET", "/memories?user_id=ann", ""), "slow")
	}
	for i, tc := range []struct {
		after       time.Duration
		shown, gone bool
	}{
		{8 * day, false, false}, // nothing has run for an hour
		{day, false, false},     // the hour before is less than 7 quiet days
		{day, false, false},
		{0, true, false}, // the hour before is enough
		{365 * day, true, false},
		{-365 * day, true, false},
	} {
		shown, gone := process(tc.after)
		expect.Equal(t, shown == tc.shown && gone == tc.gone, true, "process", i, "shown", shown, "gone", gone)
	}
}
