package ledgertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

func foundAsPut(t *testing.T, s *ledger.Ledger) {
	bare := memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "bare", Confidence: -1}
	put(t, s, Row("full"), bare)
	got := owners(t, s, "full", "bare")
	same(t, got["full"], Row("full"))
	same(t, got["bare"], bare)
	expect.Equal(t, got["full"].Written.Location(), time.UTC, "written is in")
	fine := Row("fine")
	fine.Written = fine.Written.Add(789 * time.Nanosecond).In(time.FixedZone("", 3600))
	put(t, s, fine)
	same(t, owners(t, s, "fine")["fine"], Row("fine"))
}

func unknownIsAbsent(t *testing.T, s *ledger.Ledger) {
	put(t, s, Row("a"))
	expect.Len(t, owners(t, s, "a", "b"), 1)
	expect.Len(t, owners(t, s), 0, "no ids")
	expect.Len(t, owners(t, s, "", "A", "a "), 0, "ids are exact")
	expect.OK(t, s.Commit(t.Context(), memproxy.Entry{Queued: true}), "no rows")
}

func replaced(t *testing.T, s *ledger.Ledger) {
	put(t, s, Row("a"))
	owners(t, s, "a") // warm a cache
	next := Row("a")
	next.SHA256, next.Decision, next.Confidence = strings.Repeat("cd", 32), "d-next", 300
	put(t, s, next)
	same(t, owners(t, s, "a")["a"], next)
	first, last := Row("b"), Row("b")
	last.Actor = "agent:last"
	put(t, s, first, last)
	same(t, owners(t, s, "b")["b"], last)
}

func apart(t *testing.T, s *ledger.Ledger) {
	memory, event, other := Row("x"), Row("x"), Row("x")
	event.Kind, event.Actor = memproxy.TargetEvent, "agent:event"
	other.Backend, other.Actor = "letta", "agent:other"
	put(t, s, memory, event, other)
	key := func(row memproxy.Ownership) memproxy.MemoryKey {
		return memproxy.MemoryKey{Backend: row.Backend, Kind: row.Kind, ID: row.ID}
	}
	all, err := s.Lookup(t.Context(), key(memory), key(event), key(other), memproxy.MemoryKey{Backend: "letta", Kind: memproxy.TargetEvent, ID: "x"})
	expect.That(t, err == nil && len(all) == 3 && all.Of(key(event)).Owner.Actor == "agent:event" && all.Of(key(other)).Owner.Actor == "agent:other", "all at once: %+v, %v", all, err)
	for _, want := range []memproxy.Ownership{memory, event, other} {
		got := must.Get(ledger.ByID(t.Context(), s, want.Backend, want.Kind, "x"))(t)
		same(t, got["x"].Owner, want)
	}
}

func manyIDs(t *testing.T, s *ledger.Ledger) {
	ids := names(2500)
	rows := make([]memproxy.Ownership, len(ids))
	for i, id := range ids {
		rows[i] = Row(id)
	}
	put(t, s, rows...)
	ask := append([]string{"missing", ids[7]}, ids...) // one id twice, one unknown id
	got := owners(t, s, ask...)
	must.Len(t, got, len(ids))
	same(t, got[ids[2499]], rows[2499])
}

func oddIDs(t *testing.T, s *ledger.Ledger) {
	odd := []string{`'; DROP TABLE ownership; --`, `"`, `\`, "%", "_", "a\nb", "ümläut", "u\u0308", "ü", "💾", " ", "[]", `{"a":1}`, "0", "00", strings.Repeat("x", 1024)}
	row := func(id string) memproxy.Ownership { r := Row(id); r.Decision = "d"; return r }
	for _, id := range odd {
		put(t, s, row(id))
	}
	got := owners(t, s, odd...)
	for _, id := range odd {
		same(t, got[id], row(id))
		same(t, owners(t, s, id)[id], row(id))
	}
}

// hostile returns strings that no store accepts.
func hostile() []string {
	return []string{"a\x00b", "\xff", "a\xc3", strings.Repeat("x", 1025)}
}

func hostileRows(t *testing.T, s *ledger.Ledger) {
	for _, bad := range hostile() {
		for _, spoil := range []func(*memproxy.Ownership){
			func(r *memproxy.Ownership) { r.ID = bad },
			func(r *memproxy.Ownership) { r.Scope.User = bad },
			func(r *memproxy.Ownership) { r.Decision = bad },
		} {
			r := Row("bad")
			spoil(&r)
			expect.Is(t, s.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{Row("good"), r}}), ledger.ErrRow, bad, "Put gave")
			expect.Is(t, s.Commit(context.Background(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{r}}), ledger.ErrRow, bad, "Note gave")
		}
	}
	expect.Is(t, s.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{{Backend: "mem0", ID: "x"}}}), ledger.ErrRow, "no kind")
	expect.Len(t, owners(t, s, "good", "bad"), 0, "a refused Put wrote")
}

func hostileLookup(t *testing.T, s *ledger.Ledger) {
	put(t, s, Row("good"))
	got := owners(t, s, append(hostile(), "good")...)
	must.Len(t, got, 1)
	same(t, got["good"], Row("good"))
	for _, bad := range hostile() {
		if _, ok, err := s.Decision(t.Context(), "mem0", bad); ok || err != nil {
			t.Errorf("Decision(%.12q): %v, %v", bad, ok, err)
		}
		expect.OK(t, expect.Err(s.Track(t.Context(), bad, bad)), "Record", bad)
		err := s.Commit(t.Context(), memproxy.Entry{Corrections: []memproxy.Correction{{MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: bad}, Author: "a", Corrector: "b", Decision: "d"}}})
		expect.Is(t, err, ledger.ErrRow, "Corrected", bad)
	}
}

func decisions(t *testing.T, s *ledger.Ledger) {
	a, b, receipt, other := Row("a"), Row("b"), Row("e"), Row("c")
	a.Decision, b.Decision, receipt.Decision, other.Decision = "d1", "d1", "d2", "d2"
	a.Deleted = true
	receipt.Kind = memproxy.TargetEvent
	none := Row("none")
	none.Decision = ""
	put(t, s, a, b, other, receipt, none)
	for decision, want := range map[string]memproxy.Ownership{"d1": b, "d2": receipt} {
		got, ok, err := s.Decision(t.Context(), "mem0", decision)
		must.Do(t, err, decision)
		must.Equal(t, ok, true, decision)
		same(t, got, want)
	}
	for _, q := range [][2]string{{"mem0", "d9"}, {"letta", "d1"}, {"mem0", ""}} {
		got, ok, err := s.Decision(t.Context(), q[0], q[1])
		expect.That(t, !ok && err == nil, "%v: %v, %v, %v", q, got, ok, err)
	}
}

func tombstones(t *testing.T, s *ledger.Ledger) {
	gone, kept := Row("gone"), Row("kept")
	put(t, s, gone, kept)
	owners(t, s, "gone", "kept")
	gone.Deleted = true
	put(t, s, gone)
	wantErr(t, "promotion of a deleted one", errOf(s.Promote(t.Context(), mem(gone.ID), memproxy.Review{Reviewer: "human:bob"})), ledger.ErrState)
	same(t, owners(t, s, "gone")["gone"], gone)
	n, err := s.Upkeep.Prune(t.Context(), time.Now().Add(-time.Hour))
	must.That(t, n == 0 && err == nil, "an early Prune: %d, %v", n, err)
	n, err = s.Upkeep.Prune(t.Context(), time.Now().Add(time.Hour))
	must.That(t, n == 1 && err == nil, "Prune: %d, %v", n, err)
	expect.Len(t, owners(t, s, "gone", "kept"), 1, "after Prune")
	expect.Error(t, expect.Err(s.Upkeep.Prune(t.Context(), time.Time{})), "Prune without a time was taken")
	// Many, and one that came back to life.
	var rows []memproxy.Ownership
	for _, id := range names(1234) {
		r := Row(id)
		r.Deleted = true
		rows = append(rows, r)
	}
	put(t, s, rows...)
	rows[0].Deleted = false
	put(t, s, rows[0])
	n, err = s.Upkeep.Prune(t.Context(), time.Now().Add(time.Hour))
	must.That(t, n == 1233 && err == nil, "Prune: %d, %v", n, err)
	same(t, owners(t, s, rows[0].ID)[rows[0].ID], rows[0])
}

func noted(t *testing.T, s *ledger.Ledger) {
	r := Row("a")
	for i := range 50 {
		r.Confidence = memproxy.PerMille(i)
		must.Do(t, s.Commit(context.Background(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{r, Row("b")}}))
	}
	r.ID = "reused" // the store must have its own copy
	must.Do(t, s.Commit(context.Background(), memproxy.Entry{Queued: true, Owners: nil}))
	must.Do(t, s.Sync(t.Context()))
	got := owners(t, s, "a", "b")
	expect.That(t, got["a"].Confidence == 49 && len(got) == 2, "got %+v", got)
}

func record(t *testing.T, s *ledger.Ledger, tenant, actor string) memproxy.Track {
	t.Helper()
	must.Do(t, s.Sync(t.Context()))
	got := must.Get(s.Track(t.Context(), tenant, actor))(t)
	expect.Equal(t, got.Facts+got.Corrections > 0, !got.Since.IsZero(), actor, "is known since", got.Since, got)
	got.Since = time.Time{}
	return got
}

func facts(t *testing.T, s *ledger.Ledger) {
	event, deleted, nobody, foreign := Row("e"), Row("d"), Row("n"), Row("f")
	event.Kind, deleted.Deleted, nobody.Actor, foreign.Scope.Tenant = memproxy.TargetEvent, true, "", "globex"
	put(t, s, Row("a"), Row("b"), event, deleted, nobody, foreign)
	put(t, s, Row("a")) // a repetition
	expect.Equal(t, record(t, s, "acme", "agent:dev"), (memproxy.Track{Facts: 2}))
	expect.Equal(t, record(t, s, "globex", "agent:dev"), memproxy.Track{Facts: 1}, "another tenant's")
	expect.Equal(t, record(t, s, "acme", "agent:new"), memproxy.Track{}, "a newcomer")
}

// accepted: a memory that is released from review counts for its author once, and so
// does one that a person promoted; one that was never released does not.
func accepted(t *testing.T, s *ledger.Ledger) {
	put(t, s, Row("a"), Row("b"), Row("c"), Row("d"))
	change := func(id string, state memproxy.MemoryState, person bool) {
		t.Helper()
		k := memproxy.MemoryKey{Backend: Row(id).Backend, Kind: memproxy.TargetMemory, ID: id}
		must.Get(s.SetState(t.Context(), memproxy.StateChange{MemoryKey: k, State: state, Person: person}))(t)
	}
	for _, id := range []string{"a", "b", "c"} {
		change(id, memproxy.StatePending, false)
	}
	change("a", memproxy.StateUntrusted, false)
	change("a", memproxy.StateValidated, false) // it was released already
	change("b", memproxy.StateQuarantined, false)
	change("d", memproxy.StateValidated, false)
	expect.Equal(t, record(t, s, "acme", "agent:dev"), (memproxy.Track{Facts: 4, Accepted: 1, Validated: 2}))
	change("b", memproxy.StateValidated, true)
	expect.Equal(t, record(t, s, "acme", "agent:dev"), (memproxy.Track{Facts: 4, Accepted: 2, Validated: 3}))
	// A memory that is validated again counts once, one that is flagged no longer counts,
	// and one that still waits does not count.
	change("a", memproxy.StateUntrusted, false)
	change("a", memproxy.StateValidated, false)
	change("d", memproxy.StateFlagged, false)
	change("d", memproxy.StateQuarantined, false)
	expect.Equal(t, record(t, s, "acme", "agent:dev"), (memproxy.Track{Facts: 4, Accepted: 2, Validated: 2}))
}

func corrections(t *testing.T, s *ledger.Ledger) {
	c := memproxy.Correction{MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "a"}, Tenant: "acme", Author: "agent:dev", Corrector: "human:ann", Decision: "d1"}
	again, second, own, unknown := c, c, c, c
	second.Decision, own.Decision, unknown.Decision = "d2", "d3", "d4"
	own.Corrector, unknown.Author = own.Author, ""
	for _, c := range []memproxy.Correction{c, again, second, own, unknown} {
		must.Do(t, s.Commit(t.Context(), memproxy.Entry{Corrections: []memproxy.Correction{c}}))
	}
	expect.Equal(t, record(t, s, "acme", "agent:dev"), (memproxy.Track{Corrections: 2}))
	expect.Is(t, s.Commit(t.Context(), memproxy.Entry{Corrections: []memproxy.Correction{{}}}), ledger.ErrRow, "an empty correction")
}

func deadContext(t *testing.T, s *ledger.Ledger) {
	put(t, s, Row("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.Is(t, s.Commit(ctx, memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{Row("b")}}), context.Canceled, "Put")
	expect.Is(t, expect.Err(ledger.ByID(ctx, s, "mem0", memproxy.TargetMemory, "a")), context.Canceled, "Lookup")
	_, _, err := s.Decision(ctx, "mem0", "d-a")
	expect.That(t, errors.Is(err, context.Canceled), "Decision: %v", err)
	expect.Len(t, owners(t, s, "a", "b"), 1, "afterwards")
}

func closed(t *testing.T, s *ledger.Ledger) {
	must.Do(t, s.Commit(context.Background(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{Row("a")}}))
	must.Do(t, s.Close())
	expect.OK(t, s.Close(), "Close again")
	for name, err := range map[string]error{
		"Put":    s.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{Row("b")}}),
		"Note":   s.Commit(context.Background(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{Row("b")}}),
		"Lookup": errOf(ledger.ByID(t.Context(), s, "mem0", memproxy.TargetMemory, "a")),
		"Record": errOf(s.Track(t.Context(), "acme", "agent:dev")),
		"Prune":  errOf(s.Upkeep.Prune(t.Context(), time.Now())),
	} {
		expect.Is(t, err, ledger.ErrClosed, name)
	}
}

func errOf[T any](_ T, err error) error { return err }
