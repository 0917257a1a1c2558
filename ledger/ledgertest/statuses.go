package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

func set(t *testing.T, l Life, id string, state memproxy.MemoryState, from ...memproxy.MemoryState) int {
	t.Helper()
	n := must.Get(l.SetState(t.Context(), memproxy.StateChange{MemoryKey: mem(id), Tenant: "acme", State: state, From: from, Reason: "because", Decision: "d-" + id, Rules: "p1"}))(t)
	return n
}

// status returns the status, which every ledger of the store must see.
func status(t *testing.T, l Life, id string) memproxy.Status {
	t.Helper()
	got := must.Get(ledger.ByID(t.Context(), l, "mem0", memproxy.TargetMemory, id))(t)
	expect.Equal(t, got[id].Status.State, must.Get(ledger.ByID(t.Context(), l.Other, "mem0", memproxy.TargetMemory, id))(t)[id].Status.State, id)
	return got[id].Status
}

func statesSet(t *testing.T, l Life) {
	expect.Equal(t, status(t, l, "m1").State, "", "nothing is recorded")
	set(t, l, "m1", memproxy.StateQuarantined) // after its absence was looked up
	st := status(t, l, "m1")
	expect.That(t, st.State == memproxy.StateQuarantined && st.Reason == "because" && st.Decision == "d-m1" && st.Rules == "p1" && !st.Changed.IsZero(), "got %+v", st)
	expect.Equal(t, set(t, l, "m1", memproxy.StateValidated, memproxy.StateUntrusted, memproxy.StateFlagged), 0, "a quarantined one was validated by a change that is for others")
	expect.Equal(t, set(t, l, "new", memproxy.StateValidated, memproxy.StateUntrusted), 1, "what nothing is recorded of counts as untrusted")
	expect.Len(t, must.Get(ledger.ByID(t.Context(), l, "mem0", memproxy.TargetMemory, "m1", "new", "none", "bad\x00", "m1"))(t), 2, "many at once")
	seen := status(t, l, "new").Changed
	set(t, l, "new", memproxy.StateUntrusted)
	late := memproxy.StateChange{MemoryKey: mem("new"), State: memproxy.StateFlagged, Seen: seen}
	expect.Equal(t, must.Get(l.SetState(t.Context(), late))(t), 0, "a change of what was seen before")
	late.Seen = status(t, l, "new").Changed
	expect.Equal(t, must.Get(l.SetState(t.Context(), late))(t), 1, "a change of what is seen now")
	wantErr(t, "no such state", errOf(l.SetState(t.Context(), memproxy.StateChange{MemoryKey: mem("x"), State: "splendid"})), ledger.ErrRow)
	findings := []memproxy.Finding{{Rule: "r", Start: 1, End: 4}}
	must.Get(l.SetState(t.Context(), memproxy.StateChange{MemoryKey: mem("f"), State: memproxy.StateFlagged, Findings: findings}))(t)
	st = status(t, l, "f")
	expect.That(t, len(st.Findings) == 1 && st.Findings[0] == findings[0], "findings %+v", st.Findings)
}

func statesListed(t *testing.T, l Life) {
	for i := range 25 {
		set(t, l, fmt.Sprintf("m%02d", i), memproxy.StateUntrusted)
	}
	set(t, l, "m03", memproxy.StateFlagged)
	seen := map[string]bool{}
	f := memproxy.StatusFilter{State: memproxy.StateUntrusted}
	for range 5 {
		page := must.Get(l.Other.ListStatuses(t.Context(), f))(t)
		must.Equal(t, len(page) <= 10, true, "a page of", len(page))
		for _, st := range page {
			seen[st.ID], f.After = true, st.MemoryKey
		}
	}
	must.Len(t, seen, 24, "seen")
	expect.Equal(t, seen["m03"], false, "seen")
	for name, c := range map[string]struct {
		f    memproxy.StatusFilter
		want int
	}{
		"examined under these rules": {memproxy.StatusFilter{NotRules: "p1"}, 0},
		"other rules":                {memproxy.StatusFilter{NotRules: "p2", Limit: 100}, 25},
		"other tenant":               {memproxy.StatusFilter{Tenant: new("other")}, 0},
		"no tenant":                  {memproxy.StatusFilter{Tenant: new("")}, 0},
	} {
		expect.Len(t, must.Get(l.ListStatuses(t.Context(), c.f))(t), c.want, name)
	}
}

func quiet(t *testing.T, l Life) {
	ctx := t.Context()
	for _, id := range []string{"calm", "corrected", "disputed"} {
		set(t, l, id, memproxy.StatePending)
		appendAll(t, l, Version(id, "tea"))
	}
	must.Do(t, l.Commit(ctx, memproxy.Entry{Dissents: []memproxy.Dissent{{Text: "not so", SHA256: "ab", Correction: memproxy.Correction{
		MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "disputed"}, Tenant: "acme", Author: "agent:dev", Corrector: "agent:low", Trust: memproxy.TrustAuthenticated, Decision: "d1", Reason: "r"}}}}))
	l.Clock.Pass(5 * 24 * time.Hour)
	must.Do(t, l.Commit(ctx, memproxy.Entry{Corrections: []memproxy.Correction{{
		MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "corrected"}, Tenant: "acme", Author: "agent:dev", Corrector: "human:ann", Trust: memproxy.TrustHuman, Decision: "d2", Reason: "wrong"}}}))
	appendAll(t, l, Version("corrected", "cocoa")) // an author's own change counts as well
	set(t, l, "fresh", memproxy.StatePending)
	l.Clock.Pass(3 * 24 * time.Hour)
	got, err := l.ListStatuses(ctx, memproxy.StatusFilter{State: memproxy.StatePending, QuietSince: l.Clock.Now().Add(-7 * 24 * time.Hour)})
	expect.That(t, err == nil && len(got) == 1 && got[0].ID == "calm", "quiet for seven days: %+v, %v", got, err)
	cs, err := l.Other.Corrections(ctx, mem("corrected"))
	expect.That(t, err == nil && len(cs) == 1 && cs[0].Corrector == "human:ann" && cs[0].Author == "agent:dev" && cs[0].Reason == "wrong" && cs[0].Trust == memproxy.TrustHuman,
		"corrections %+v, %v", cs, err)
}

func expiry(t *testing.T, l Life) {
	ctx := t.Context()
	soon := l.Clock.Now().Add(time.Hour)
	for _, id := range []string{"goes", "pinned", "bad", "stays", "confirmed"} {
		state := memproxy.StateValidated
		if id == "bad" {
			state = memproxy.StateQuarantined
		}
		c := memproxy.StateChange{MemoryKey: mem(id), State: state, Expires: soon}
		if id == "stays" {
			c.Expires = time.Time{}
		}
		must.Get(l.SetState(ctx, c))(t)
	}
	appendAll(t, l, Version("pinned", "old"), Version("pinned", "new"))
	wantErr(t, "no version", l.Pin(ctx, mem("stays"), 0, true, by("human:ann")), ledger.ErrUnknown)
	must.Do(t, l.Pin(ctx, mem("pinned"), 1, true, by("human:ann")))
	must.Do(t, l.Pin(ctx, mem("pinned"), 0, true, by("human:ann")))
	must.Do(t, l.Pin(ctx, mem("pinned"), 2, false, by("human:ann")))
	expect.Len(t, must.Get(l.Upkeep.Expire(ctx, l.Clock.Now()))(t), 0, "before their time")
	later := memproxy.Renewal{MemoryKey: mem("goes"), Expires: soon.Add(time.Hour), Sooner: true}
	must.Do(t, l.Commit(ctx, memproxy.Entry{Renewed: []memproxy.Renewal{later}}))
	expect.Equal(t, status(t, l, "goes").Expires.Equal(soon.Truncate(time.Microsecond)), true, "moved, it ends", soon)
	l.Clock.Pass(2 * time.Hour)
	must.Do(t, l.Commit(ctx, memproxy.Entry{Renewed: []memproxy.Renewal{{MemoryKey: mem("confirmed"), Expires: l.Clock.Now().Add(time.Hour)}}}))
	expect.Equal(t, status(t, l, "goes").State, memproxy.StateExpired, "over and not marked, it is")
	if list, err := l.Other.ListStatuses(ctx, memproxy.StatusFilter{Overdue: true}); err != nil || len(list) != 1 || list[0].ID != "goes" {
		t.Errorf("overdue: %v, %v", list, err)
	}
	gone, err := l.Upkeep.Expire(ctx, l.Clock.Now())
	must.That(t, err == nil && len(gone) == 1 && gone[0].ID == "goes", "expired: %v, %v", gone, err)
	for id, want := range map[string]memproxy.MemoryState{
		"goes": memproxy.StateExpired, "pinned": memproxy.StateValidated, "bad": memproxy.StateQuarantined,
		"stays": memproxy.StateValidated, "confirmed": memproxy.StateValidated,
	} {
		expect.Equal(t, status(t, l, id).State, want, id)
	}
	must.Do(t, l.Commit(ctx, memproxy.Entry{Renewed: []memproxy.Renewal{{MemoryKey: mem("goes"), Expires: l.Clock.Now().Add(time.Hour)}}}))
	expect.Equal(t, status(t, l, "goes").State, memproxy.StateValidated, "seen to hold again, it is")
	l.Clock.Pass(2 * time.Hour)
	if gone, err = l.Upkeep.Expire(ctx, l.Clock.Now()); err != nil || len(gone) != 2 { // goes, confirmed
		t.Errorf("expired again: %v, %v", gone, err)
	}
	l.Clock.Pass(181 * 24 * time.Hour)
	due, err := l.Upkeep.Purgeable(ctx, memproxy.MemoryKey{}, l.Clock.Now().Add(-180*24*time.Hour), 100)
	must.Do(t, err, "to be purged")
	expect.Len(t, due, 2, "to be purged")
	due = must.Get(l.Upkeep.Purgeable(ctx, due[0].MemoryKey, l.Clock.Now().Add(-180*24*time.Hour), 100))(t)
	expect.Len(t, due, 1, "to be purged after the first")
	must.Do(t, l.Pin(ctx, mem("pinned"), 0, false, by("human:ann")))
	gone, err = l.Upkeep.Expire(ctx, l.Clock.Now())
	expect.That(t, err == nil && len(gone) == 1 && gone[0].ID == "pinned", "unpinned: %v, %v", gone, err)
	must.Do(t, l.Pin(ctx, mem("pinned"), 1, true, by("human:ann")))
	expect.Equal(t, status(t, l, "pinned").State, memproxy.StateValidated, "pinned after its time, it is")
}

func purged(t *testing.T, l Life) {
	ctx := t.Context()
	put(t, l.Ledger, Row("m"))
	must.Do(t, l.Commit(ctx, memproxy.Entry{Versions: []memproxy.Version{Version("m", "first"), Version("m", "second")}}))
	must.Do(t, l.Pin(ctx, mem("m"), 1, true, by("human:ann")))
	set(t, l, "m", memproxy.StateExpired)
	must.Do(t, l.Upkeep.Purge(ctx, mem("m"), "system:ttl", "d-purge"))
	must.Do(t, l.Upkeep.Purge(ctx, mem("m"), "system:ttl", "d-purge"))
	history, err := l.History(ctx, mem("m"), 0, 0)
	must.That(t, err == nil && len(history) == 3 && history[0].Op == memproxy.OpPurge, "what happened stays known: %+v, %v", history, err)
	wantErr(t, "what it said", errOf(l.Version(ctx, mem("m"), 1)), ledger.ErrShredded)
	must.Do(t, l.Pin(ctx, mem("m"), 0, false, by("human:ann")))
	gone := Version("gone", "")
	gone.Op = memproxy.OpDelete
	appendAll(t, l, Version("gone", "text"), gone)
	wantErr(t, "pin a deletion", l.Pin(ctx, mem("gone"), 0, true, by("human:ann")), ledger.ErrShredded)
	expect.Equal(t, status(t, l, "m").State, "")
	expect.Equal(t, owners(t, l.Ledger, "m")["m"].Deleted, true, "no tombstone")
	sound(t, l)
}

// open reports whether the dissent of a decision is open.
func open(all []memproxy.Dissent, decision string) bool {
	return slices.ContainsFunc(all, func(d memproxy.Dissent) bool { return d.Decision == decision && d.Open })
}

func contested(t *testing.T, l Life) {
	ctx := t.Context()
	put(t, l.Ledger, Row("m"))
	d := memproxy.Dissent{Text: "the sky is green", SHA256: "ab", Correction: memproxy.Correction{
		MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "m"}, Tenant: "acme", Author: "agent:dev", Corrector: "agent:low", Trust: memproxy.TrustAnonymous, Decision: "d1", Reason: "thinks so"}}
	must.Do(t, l.Commit(ctx, memproxy.Entry{Dissents: []memproxy.Dissent{d}}))
	must.Do(t, l.Commit(ctx, memproxy.Entry{Dissents: []memproxy.Dissent{d}})) // a repetition
	d.Decision, d.Text = "d2", "the sky is red"
	must.Do(t, l.Commit(ctx, memproxy.Entry{Dissents: []memproxy.Dissent{d}}))
	st := status(t, l, "m")
	expect.That(t, st.Contested && st.State == memproxy.StateUntrusted, "status %+v", st)
	all, err := l.Other.Dissents(ctx, mem("m"), true)
	expect.That(t, err == nil && len(all) == 2 && all[0].Text == "the sky is red" && all[1].Text == "the sky is green" && all[0].Open && all[0].Corrector == "agent:low",
		"dissent %+v, %v", all, err)
	who, err := ledger.ByID(ctx, l, "mem0", memproxy.TargetMemory, "m", "unknown")
	expect.That(t, err == nil && len(who) == 1 && who["m"].Status.Contested && who["m"].Owner.Actor == "agent:dev" && who["m"].Status.Attestation == "", "records %+v, %v", who, err)
	// A final decision on the write closes its dissent, and the last closed dissent ends
	// the contest.
	put(t, l.Ledger, Row("n"))
	d.ID = "n"
	for _, d.Decision = range []string{"rejected", "failed", "resolved", "approved"} {
		must.Do(t, l.Commit(ctx, memproxy.Entry{Dissents: []memproxy.Dissent{d}}))
		must.Get(l.Holds.Put(ctx, memproxy.HeldWrite{ID: d.Decision, Backend: "mem0", Route: "mem0.update", Method: "PUT", EscapedPath: "/memories/n", Tenant: "acme", Principal: "agent:low", Kind: memproxy.Correct, Created: l.Clock.Now()}, memproxy.HoldContent{Body: []byte("{}")}))(t)
	}
	must.Do(t, l.Holds.Reject(ctx, "rejected", by("human:ann")))
	expect.Equal(t, status(t, l, "n").Contested, true, "one dissent is still open")
	for _, id := range [...]string{"failed", "resolved"} { // the backend refused it, or the outcome is unknown
		must.Get(l.Holds.Approve(ctx, id, by("human:ann")))(t)
		claim := must.Get(l.Holds.Claim(ctx, id, time.Minute))(t)
		if id == "failed" {
			must.Do(t, l.Holds.EndClaim(ctx, id, claim.Token, memproxy.HoldApproved, memproxy.HoldResult{})) // nothing was sent: it is tried again
			expect.Equal(t, open(must.Get(l.Dissents(ctx, mem("n"), false))(t), id), true, "what is tried again")
			claim = must.Get(l.Holds.Claim(ctx, id, time.Minute))(t)
			must.Do(t, l.Holds.EndClaim(ctx, id, claim.Token, memproxy.HoldFailed, memproxy.HoldResult{Status: 422}))
		} else {
			l.Clock.Pass(2 * time.Minute)
			_, err = l.Holds.Resolve(ctx, id, memproxy.HoldFailed, memproxy.HoldResult{})
		}
		must.Do(t, err)
		if all, err := l.Dissents(ctx, mem("n"), false); err != nil || open(all, id) || !open(all, "approved") {
			t.Errorf("%s: %+v, %v", id, all, err)
		}
	}
	must.Get(l.Holds.Approve(ctx, "approved", by("human:ann")))(t)
	expect.Equal(t, status(t, l, "n").Contested, true, "approved, and not written yet")
	claim := must.Get(l.Holds.Claim(ctx, "approved", time.Minute))(t)
	must.Do(t, l.Holds.EndClaim(ctx, "approved", claim.Token, memproxy.HoldDone, memproxy.HoldResult{Status: 200}))
	expect.Equal(t, status(t, l, "n").Contested, false, "no dissent is open")
	for i := range 30 {
		d.Decision = fmt.Sprint("flood", i)
		must.Do(t, l.Commit(ctx, memproxy.Entry{Dissents: []memproxy.Dissent{d}}))
	}
	all, err = l.Dissents(ctx, mem("n"), true)
	expect.That(t, err == nil && len(all) == 20 && all[0].Decision == "flood29", "%d of dissent, %v", len(all), err)
}

func promoted(t *testing.T, l Life) {
	ctx := t.Context()
	put(t, l.Ledger, Row("m"))
	set(t, l, "m", memproxy.StatePending)
	two := func(who string) memproxy.Review { return memproxy.Review{Reviewer: who, Need: 2} }
	wantErr(t, "the author", errOf(l.Promote(ctx, mem("m"), two("agent:dev"))), ledger.ErrOwnReview)
	corrected := Version("m", "corrected")
	corrected.Actor = "human:eve"
	moved := corrected
	moved.Actor, moved.Decision, moved.Before, moved.Metadata = "human:bob", "d-moved", hash("corrected"), []byte(`{"n":2}`)
	must.Do(t, l.Commit(ctx, memproxy.Entry{Versions: []memproxy.Version{corrected, moved}}))
	wantErr(t, "who wrote the text", errOf(l.Promote(ctx, mem("m"), two("human:eve"))), ledger.ErrOwnReview)
	wantErr(t, "and pins it", l.Pin(ctx, mem("m"), 0, true, by("human:eve")), ledger.ErrOwnReview)
	must.Do(t, l.Pin(ctx, mem("m"), 0, false, by("human:eve")), "ends no pin of it")
	must.Do(t, l.Pin(ctx, mem("m"), 1, true, by("human:ann")))
	must.Do(t, l.Commit(ctx, memproxy.Entry{Versions: []memproxy.Version{Version("m", "newer")}}))
	wantErr(t, "and ends its pin with all others", l.Pin(ctx, mem("m"), 0, false, by("human:eve")), ledger.ErrOwnReview)
	tally, err := l.Promote(ctx, mem("m"), two("human:ann"))
	must.Do(t, err, tally)
	must.Equal(t, tally.Settled, false, tally)
	expect.Equal(t, status(t, l, "m").State, memproxy.StatePending, "after one of two")
	tally, err = l.Other.Promote(ctx, mem("m"), two("human:bob"))
	must.Do(t, err, tally)
	must.Equal(t, tally.Settled, true, tally)
	st := status(t, l, "m")
	expect.That(t, st.State == memproxy.StateValidated && st.Attestation == memproxy.HumanConfirmed, "after both: %+v", st)
	set(t, l, "bad", memproxy.StateQuarantined)
	if _, err = l.Promote(ctx, mem("bad"), by("human:ann")); err != nil || status(t, l, "bad").State != memproxy.StateValidated {
		t.Errorf("a quarantined one that was none: %+v, %v", status(t, l, "bad"), err)
	}
	set(t, l, "gone", memproxy.StateExpired)
	wantErr(t, "an expired one", errOf(l.Promote(ctx, mem("gone"), by("human:ann"))), ledger.ErrState)
	wantErr(t, "a promoted one", errOf(l.Promote(ctx, mem("m"), by("human:ann"))), ledger.ErrState)
	// A person's decision stays in force, whatever the rules say of the same text, until
	// the text changes.
	must.Get(l.SetState(ctx, memproxy.StateChange{MemoryKey: mem("m"), State: memproxy.StateQuarantined, Rules: "p9"}))(t)
	st = status(t, l, "m")
	expect.That(t, st.State == memproxy.StateValidated && st.CurrentRules == memproxy.StateQuarantined && st.Rules == "p9" && st.Attestation == memproxy.HumanConfirmed,
		"the rules undid it: %+v", st)
	must.Get(l.SetState(ctx, memproxy.StateChange{MemoryKey: mem("m"), State: memproxy.StatePending, Text: memproxy.TextSHA256("another")}))(t)
	st = status(t, l, "m")
	expect.That(t, st.State == memproxy.StatePending && st.Reviewed == "" && st.CurrentRules == "", "another text: %+v", st)
	tally, err = l.Promote(ctx, mem("m"), two("human:bob"))
	expect.That(t, err == nil && tally.Have == 1, "old votes do not count again: %+v, %v", tally, err)
}

func maintained(t *testing.T, l Life) {
	const day = 24 * time.Hour
	maintain := func() {
		t.Helper()
		must.Get(l.Upkeep.Maintain(t.Context(), l.Clock.Now(), ledger.Retention{Holds: day, Sessions: day, Tombstones: day, Records: day}))(t)
	}
	ctx := t.Context()
	gone := Row("gone")
	put(t, l.Ledger, gone, Row("stays"))
	set(t, l, "gone", memproxy.StateFlagged)
	set(t, l, "stays", memproxy.StateFlagged)
	must.Do(t, l.Commit(ctx, memproxy.Entry{Dissents: []memproxy.Dissent{{Text: "no", Correction: memproxy.Correction{
		MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "gone"}, Tenant: "acme", Author: "a", Corrector: "b", Decision: "d"}}}}))
	gone.Deleted = true
	put(t, l.Ledger, gone)
	for i := range 12 {
		appendAll(t, l, Version("m", fmt.Sprint(i)))
	}
	hold(t, l, "h", "text")
	must.Do(t, l.Holds.Reject(ctx, "h", by("human:ann")))
	hold(t, l, "waits", "text")
	maintain()
	wantState(t, l, "h", memproxy.HoldRejected)
	l.Clock.Pass(2 * day)
	maintain()
	wantErr(t, "a hold that was settled", errOf(l.Holds.Get(ctx, "h")), ledger.ErrUnknown)
	wantState(t, l, "waits", memproxy.HoldPending)
	expect.Equal(t, status(t, l, "gone").State, "", "of a deleted memory")
	expect.Equal(t, status(t, l, "stays").State, memproxy.StateFlagged, "of a memory that is there")
	expect.Len(t, must.Get(l.Dissents(ctx, mem("gone"), true))(t), 0, "dissent")
	expect.Len(t, must.Get(l.History(ctx, mem("m"), 0, 0))(t), 10)
	sound(t, l)
}

func inventory(t *testing.T, l Life) {
	gone, other := Row("b"), Row("e")
	gone.Deleted, other.Backend = true, "letta"
	all := []memproxy.Ownership{Row("d"), Row("a"), gone, Row("C"), other}
	want := []string{"C", "a", "d"} // all stores compare by bytes
	for i := range 501 {            // more than a page
		all = append(all, Row(fmt.Sprintf("x%03d", i)))
		want = append(want, all[len(all)-1].ID)
	}
	put(t, l.Ledger, all...)
	var got []string
	pages := 0
	must.Do(t, l.Other.Backends.Inventory(t.Context(), "mem0", func(page []memproxy.Ownership) error {
		pages++
		for _, row := range page {
			got = append(got, row.ID)
		}
		return nil
	}))
	expect.That(t, slices.Equal(got, want) && pages >= 2, "inventory of %d pages: %q", pages, got)
	stop := errors.New("enough")
	expect.Is(t, l.Other.Backends.Inventory(t.Context(), "mem0", func([]memproxy.Ownership) error { pages++; return stop }), stop, "after an error")
	expect.Equal(t, pages, 3, "after an error")
}
