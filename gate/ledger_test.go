package gate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/gatetest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// fakeLedger keeps what it is given, for tests to look at.
type fakeLedger struct {
	gatetest.NoLedger
	asked int                  // for records
	twice []memproxy.MemoryKey // what one call asked for again
	mu    sync.Mutex
	rows  map[string]memproxy.Ownership
	// statuses are by the objects' ids.
	statuses map[string]memproxy.Status
	// listed are the ids of objects that the backend held when it was sealed.
	listed      map[string]struct{}
	corrections []memproxy.Correction // of every memory
	track       memproxy.Track        // of every author
	said        memproxy.Retraction   // by every author
	strikes     map[string]int
	tracked     int // how often track records were asked for
	unsure      int // rejections that lock nothing

	versions  []memproxy.Version
	history   []string // of versions, in words
	changes   []memproxy.StateChange
	marks     []string // of changes, in words
	corrected []memproxy.Correction
	retracted []memproxy.Retraction
	dissent   []memproxy.Dissent

	err    error // of everything that a write or a read depends on
	broken error // of records and corrections
	full   error // of states that are recorded
	kept   error // of entries that may be queued
	// Of one method each.
	noTrack, noRetraction, noCorrections error
}

func newLedger() *fakeLedger {
	return &fakeLedger{rows: map[string]memproxy.Ownership{}, statuses: map[string]memproxy.Status{}, strikes: map[string]int{}}
}

func (l *fakeLedger) Lookup(_ context.Context, keys ...memproxy.MemoryKey) (memproxy.Records, error) {
	return l.joined(keys, func(k memproxy.MemoryKey) memproxy.Record {
		st, ok := l.statuses[k.ID]
		if ok {
			st.MemoryKey = k
		}
		rec := memproxy.Record{Status: st}
		if _, listed := l.listed[k.ID]; listed {
			rec.Presence = memproxy.PresentAtSeal
		}
		return rec
	})
}

// joined adds the owners to what else a fake knows of objects.
func (l *fakeLedger) joined(keys []memproxy.MemoryKey, rest func(memproxy.MemoryKey) memproxy.Record) (memproxy.Records, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked++; l.err != nil || l.broken != nil {
		return nil, errors.Join(l.err, l.broken)
	}
	out := memproxy.Records{}
	for i, k := range keys {
		if slices.Contains(keys[:i], k) {
			l.twice = append(l.twice, k)
		}
		rec := rest(k)
		if row, ok := l.rows[k.ID]; ok && row.Kind == k.Kind {
			rec.Owner = row
		}
		if rec.HasOwner() || rec.HasStatus() || rec.Status.Attestation != "" || rec.Presence != memproxy.NotSealed {
			out[k] = &rec
		}
	}
	return out, nil
}

func (l *fakeLedger) Decision(context.Context, string, string) (memproxy.Ownership, bool, error) {
	return memproxy.Ownership{}, false, l.err
}

// Commit applies an entry, unless another replaced what it was made over.
func (l *fakeLedger) Commit(_ context.Context, e memproxy.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range slices.Concat(e.Found, e.Versions) {
		l.history = append(l.history, fmt.Sprintf("%s %s %q before %v by %s", v.Op, v.ID, v.Text, v.Before != "", v.Actor))
	}
	l.changes = append(l.changes, e.States...)
	for _, c := range e.States {
		l.marks = append(l.marks, fmt.Sprintf("%s %s until %v", c.ID, c.State, c.Expires.Sub(noon)))
	}
	l.dissent, l.corrected, l.retracted = append(l.dissent, e.Dissents...), append(l.corrected, e.Corrections...), append(l.retracted, e.Retractions...)
	switch {
	case l.err != nil:
		return l.err
	case e.Queued && l.kept != nil:
		return l.kept
	case len(e.Dissents) > 0 && l.broken != nil:
		return l.broken
	case len(e.States) > 0 && l.full != nil:
		return l.full
	}
	for _, row := range e.ExpectedOwners {
		if now := l.rows[row.ID]; now.Decision != row.Decision || now.Deleted != row.Deleted {
			return memproxy.ErrStale
		}
	}
	for _, row := range e.Owners {
		if l.rows[row.ID] = row; row.Deleted && row.Kind == memproxy.TargetEntity {
			delete(l.rows, row.ID)
		}
	}
	l.versions = append(l.versions, e.Versions...)
	return nil
}

func (l *fakeLedger) Bind(_ context.Context, rows ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	out := make([]memproxy.Ownership, len(rows))
	for i, row := range rows {
		switch is, bound := l.rows[row.ID]; {
		case !bound:
			l.rows[row.ID] = row
		case is.Kind == memproxy.TargetEntity && is.Scope.Tenant == row.Scope.Tenant && is.Decision != row.Decision:
			is.Decision = ""
			l.rows[row.ID] = is
		}
		out[i] = l.rows[row.ID]
	}
	return out, nil
}

// ListStatuses looks through the statuses.
func (l *fakeLedger) ListStatuses(_ context.Context, f memproxy.StatusFilter) (list []memproxy.Status, _ error) {
	for _, st := range l.statuses {
		if st.State == f.State && !f.Unverified {
			list = append(list, st)
		}
	}
	return list, l.err
}

func (l *fakeLedger) SessionLocked(_ context.Context, tenant string, sessions ...string) (memproxy.Lock, error) {
	for _, s := range sessions {
		if limit := memproxy.DefaultLockLimits().Of(memproxy.SessionKeyOf(s).Kind); l.strikes[tenant+"/"+s] >= limit {
			return memproxy.Lock{ID: s, Until: noon.Add(time.Hour)}, l.err
		}
	}
	return memproxy.Lock{}, l.err
}

func (l *fakeLedger) NoteSession(_ context.Context, e memproxy.SessionEvent, ids ...string) (locked []memproxy.Session, _ error) {
	if e.WeakEvidence {
		l.unsure++
		return nil, l.err
	}
	for _, id := range ids {
		l.strikes[e.Tenant+"/"+id]++
		if kind := memproxy.SessionKeyOf(id).Kind; l.strikes[e.Tenant+"/"+id] == memproxy.DefaultLockLimits().Of(kind) {
			locked = append(locked, memproxy.Session{ID: id, Kind: kind})
		}
	}
	return locked, l.err
}

func (l *fakeLedger) Corrections(context.Context, memproxy.MemoryKey) ([]memproxy.Correction, error) {
	return l.corrections, errors.Join(l.broken, l.noCorrections)
}

func (l *fakeLedger) Track(context.Context, string, string) (memproxy.Track, error) {
	l.tracked++
	return l.track, l.noTrack
}

func (l *fakeLedger) Retraction(context.Context, string, string, []string, time.Time) (memproxy.Retraction, bool, error) {
	return l.said, l.said != memproxy.Retraction{}, l.noRetraction
}

// decorator is a ledger around a ledger, written by somebody who knows of nothing
// but the interface.
type decorator struct{ gate.Ledger }

// meter counts the ledger's failures.
type meter struct {
	gate.Meter
	failed int
}

func (m *meter) LedgerFailed(context.Context)              { m.failed++ }
func (*meter) Step(context.Context, string, time.Duration) {}
func (*meter) Decided(context.Context, *memproxy.Event)    {}

// Proves EDGE-13, GOV-6: a decorator around a ledger switches no control off:
// states still withhold, track records still clamp, versions and sessions are kept.
func TestADecoratedLedgerLosesNothing(t *testing.T) {
	r, l := anyAgent(t, func(r *rig) { r.sweeper = decorator{decorator{r.ledger}} })
	l.rows["m1"], l.statuses["m1"] = owned("m1", "acme", "dev"), memproxy.Status{State: memproxy.StateQuarantined}
	l.track = memproxy.Track{Facts: 10, Corrections: 400}
	r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: "text"}}
	a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
	expect.Equal(t, string(r.gate.Return(t.Context(), a, memproxy.Reply{Status: 200, Body: []byte("[]")}).Body), "", "a quarantined memory is shown")
	r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "m2", Text: "a note", Event: "ADD"}}
	a = r.admit(learn("a note"))
	expect.Equal(t, r.fake.stamp.Confidence, 350, "the confidence is")
	r.gate.Return(t.Context(), a, memproxy.Reply{Status: 200, Body: []byte("{}")})
	expect.Len(t, l.history, 1, "versions")
	r.rules.Policy = says(memproxy.Deny, memproxy.ScreenRisk)
	r.admit(learn("another note"))
	expect.That(t, len(l.strikes)+l.unsure > 0, "a rejection is not counted")
}

// Proves CARD-6: each call of the ledger that fails is counted once, whoever made
// it.
func TestFailuresOfTheLedgerAreCounted(t *testing.T) {
	for _, failing := range []error{nil, errBroken} {
		m := &meter{}
		r, l := anyAgent(t, func(r *rig) { r.meter, r.sweeper = m, decorator{r.ledger} })
		l.noTrack = failing
		a := r.admit(learn("a note"))
		must.Equal(t, l.tracked > 0, true, "the track record is asked for", a.Decision)
		want := map[bool]int{true: l.tracked}[failing != nil]
		expect.That(t, m.failed == want, "%v: %d of %d failures are counted", failing, m.failed, want)
	}
	m, c := &meter{}, &echoer{}
	r, l := anyAgent(t, func(r *rig) {
		r.meter, r.adapter, r.fake = m, c, &c.fakeAdapter
		r.rules.NeverRefuse, r.rules.Policy = true, says(memproxy.Hold, memproxy.ScreenRisk)
	})
	l.full = errBroken
	expect.Equal(t, r.admit(learn("a note")).Decision.Status, 503)
	expect.Equal(t, m.failed, 1, "the status of a write that was set aside")
	m = &meter{}
	r, _, _ = holdRig(t, func(r *rig, _ *fakeHoldReplier, k *fakeHoldStore) { r.meter, k.err = m, errBroken })
	expect.Equal(t, r.admit(learn("a note")).Decision.Status, 503)
	expect.Equal(t, m.failed, 1, "a held write")
}

// Proves EDGE-3: a request asks the ledger about each of its objects once before it is
// forwarded, and once about those of the answer: their owners and their states
// are of one moment. A change asks again in its turn, before which another one may have
// changed them.
func TestAPhaseAsksTheLedgerOnce(t *testing.T) {
	for what, tc := range map[string]struct {
		op           memproxy.Operation
		answer       []memproxy.Memory
		admit, after int
	}{
		"a search": {
			op:     memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"ann"}, Pins: true}}},
			answer: []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: "text", Scope: memproxy.Scope{User: "ann"}}, {Pointer: "/1", ID: "m2", Text: "text"}},
			admit:  1, after: 1,
		},
		"a change": {
			op: memproxy.Operation{Kind: memproxy.Correct, Targets: []string{"m1"}, TargetKind: memproxy.TargetMemory,
				Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"ann"}}},
				Items:  []memproxy.Item{{Kind: memproxy.ItemContent, Target: "m1", Text: "another"}}},
			admit: 2, after: 0,
		},
		"a list without records": {
			op:     memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"ann", "ann"}, Pins: true}}},
			answer: []memproxy.Memory{{Pointer: "/0", ID: "m3", Text: "text", Scope: memproxy.Scope{User: "ann"}}, {Pointer: "/1", ID: "m4", Text: "text", Scope: memproxy.Scope{User: "ann"}}},
			admit:  1, after: 2,
		},
		"an addition": {
			op: memproxy.Operation{Kind: memproxy.Learn, Scope: memproxy.Scope{User: "ann"},
				Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"ann"}}},
				Items:  []memproxy.Item{{Kind: memproxy.ItemContent, Text: "text"}}},
			answer: []memproxy.Memory{{Pointer: "/0", ID: "m3", Text: "text", Event: "ADD"}},
			admit:  1, after: 1,
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.rules.OneTenant = false })
			l := r.ledger
			for _, row := range []memproxy.Ownership{owned("m1", "acme", "dev"), owned("m2", "acme", "dev"), name(memproxy.DimUser, "ann", "acme")} {
				row.Backend = "mem"
				l.rows[row.ID] = row
			}
			l.statuses["m1"] = memproxy.Status{State: memproxy.StateValidated}
			r.fake.memories = tc.answer
			a := r.admit(tc.op)
			expect.That(t, !a.Decision.Verdict.Stops() && l.asked == tc.admit, "asked %d times before, want %d: %+v", l.asked, tc.admit, a.Decision)
			l.asked = 0
			r.gate.Return(t.Context(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
			expect.Equal(t, l.asked, tc.after, "asked")
			expect.Len(t, l.twice, 0, "asked twice at once")
		})
	}
}
