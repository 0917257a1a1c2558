package ledgertest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

func event(decision string, verdict memproxy.Verdict, codes ...memproxy.ReasonCode) memproxy.SessionEvent {
	e := memproxy.SessionEvent{Tenant: "acme", Principal: "agent:dev", Decision: decision, Verdict: verdict, Route: "mem0.v3.add"}
	for _, code := range codes {
		e.Reasons = append(e.Reasons, memproxy.Reason{Code: code, Detail: "because"})
	}
	return e
}

func sessionLocks(t *testing.T, l Life) {
	ctx := t.Context()
	note := func(e memproxy.SessionEvent, want bool) {
		t.Helper()
		expect.Equal(t, len(must.Get(l.NoteSession(ctx, e, "s1"))(t, e.Decision)) > 0, want, e.Decision, "locked")
	}
	isLocked := func(want bool) {
		t.Helper()
		expect.Equal(t, must.Get(l.Other.SessionLocked(ctx, "acme", "s1"))(t).ID == "s1", want, "locked")
	}
	isLocked(false)
	note(event("d1", memproxy.Deny, memproxy.PolicyForbid), false)
	note(event("d1", memproxy.Deny, memproxy.PolicyForbid), false) // a repetition
	note(event("d2", memproxy.Hold, memproxy.PolicyForbid), false)
	note(event("d3", memproxy.Deny, memproxy.PolicyForbid, memproxy.TrustClamped), false)
	isLocked(false)
	note(event("d4", memproxy.Deny, memproxy.FieldForbidden), true)
	isLocked(true)
	note(event("d5", memproxy.Deny, memproxy.FieldForbidden), false)

	s, err := l.Other.Sessions.Get(ctx, new("acme"), "s1")
	expect.That(t, err == nil && s.Rejections == 4 && s.Held == 1 && !s.Locked.IsZero() && len(s.Refused) == 5, "session %+v, %v", s, err)
	expect.Equal(t, fmt.Sprint(s.Reasons), "[{policy.forbid  3} {field.forbidden  2} {trust.clamped  1}]", "reasons")
	if e := s.Refused[1]; e.Decision != "d2" || e.Verdict != memproxy.Hold || e.Reasons[0].Detail != "because" || e.Time.IsZero() {
		t.Errorf("refusal %+v", e)
	}
	wantErr(t, "its own principal", l.Sessions.Unlock(ctx, "acme", "s1", by("agent:dev")), ledger.ErrOwnReview)
	wantErr(t, "no such session", l.Sessions.Unlock(ctx, "other", "s1", by("human:ann")), ledger.ErrUnknown)
	must.Do(t, l.Sessions.Unlock(ctx, "acme", "s1", by("human:ann")))
	isLocked(false)
	wantErr(t, "unlocked already", l.Sessions.Unlock(ctx, "acme", "s1", by("human:ann")), ledger.ErrState)
	note(event("d6", memproxy.Deny), false)
	note(event("d7", memproxy.Deny), false)
	note(event("d8", memproxy.Deny), true)
	for what, ids := range map[string][]string{"no record": nil, "a record without an id": {"s1", ""}, "a NUL": {"s1", "s\x002"}} {
		wantErr(t, what, errOf(l.NoteSession(ctx, event("d9", memproxy.Deny), ids...)), ledger.ErrRow)
	}
	for i := range 130 {
		note(event(fmt.Sprint("flood", i), memproxy.Deny, memproxy.PolicyForbid), false)
	}
	s, err = l.Sessions.Get(ctx, new("acme"), "s1")
	expect.That(t, err == nil && len(s.Refused) == 25 && s.Rejections == 137 && s.Refused[24].Decision == "flood129", "%d refusals of %d are kept, %v", len(s.Refused), s.Rejections, err)
}

// sessionWindows: a caller's rejections count within a window only.
func sessionWindows(t *testing.T, l Life) {
	n := 0
	note := func(want bool) {
		t.Helper()
		n++
		locked := must.Get(l.NoteSession(t.Context(), event(fmt.Sprint("w", n), memproxy.Deny, memproxy.PolicyForbid), "caller:agent:dev/ann"))(t, n)
		expect.Equal(t, len(locked) > 0, want, n, "locked", locked)
	}
	for range 9 { // more than lock a session, but too old by then
		note(false)
	}
	l.Clock.Pass(2 * time.Hour)
	for range 9 {
		note(false)
	}
	note(true)
	for _, want := range []string{"caller:agent:dev/ann", ""} {
		expect.Equal(t, must.Get(l.Other.SessionLocked(t.Context(), "acme", "s9", "caller:agent:dev/ann", "caller:agent:dev/bob", "caller:agent:dev"))(t).ID, want, "locked")
		if want != "" {
			must.Do(t, l.Sessions.Unlock(t.Context(), "acme", want, by("human:ann")))
			l.Clock.Pass(time.Second)
		}
	}
	for range 9 { // counting begins anew after an unlock
		note(false)
	}
	note(true)
}

// sessionLocksEnd: a lock ends an hour after the last rejection that counted, and
// counting begins anew.
func sessionLocksEnd(t *testing.T, l Life) {
	for _, id := range []string{"session:agent:dev/ann/s", "caller:agent:dev/ann", "caller:agent:dev"} {
		limit := memproxy.DefaultLockLimits().Of(memproxy.SessionKeyOf(id).Kind)
		n := 0
		reject := func(times int) (last []memproxy.Session) {
			t.Helper()
			for range times {
				n++
				last = must.Get(l.NoteSession(t.Context(), event(fmt.Sprint(id, n), memproxy.Deny, memproxy.ScreenRisk), id))(t)
			}
			return last
		}
		locked := func(want bool) {
			t.Helper()
			got, err := l.Other.SessionLocked(t.Context(), "acme", id)
			expect.That(t, err == nil && (got.ID == id) == want && (!want || got.Until.After(l.Clock.Now())), "%s: %+v, %v; want it locked: %v", id, got, err, want)
		}
		expect.Len(t, reject(limit-1), 0, id, "locked too early")
		if last := reject(1); len(last) != 1 || last[0].Limit != limit || !last[0].Until.Equal(last[0].LastRejection.Add(time.Hour)) {
			t.Errorf("%s: %+v; want it locked for an hour", id, last)
		}
		locked(true)
		l.Clock.Pass(59 * time.Minute)
		locked(true)
		l.Clock.Pass(-3 * time.Hour) // a clock that was wrong for a moment changes nothing
		locked(false)
		l.Clock.Pass(5 * time.Hour)
		locked(false)
		l.Clock.Pass(-2 * time.Hour)
		locked(true)
		l.Clock.Pass(time.Minute)
		locked(false)
		expect.Equal(t, must.Get(l.Sessions.Get(t.Context(), new("acme"), id))(t, id).Locked.IsZero(), true, id)
		wantErr(t, "nothing to unlock", l.Sessions.Unlock(t.Context(), "acme", id, by("human:ann")), ledger.ErrState)
		expect.Len(t, reject(limit-1), 0, id, "the rejections of the lock before count")
		locked(false)
		if last := reject(1); len(last) == 0 {
			t.Errorf("%s: not locked again", id)
		}
		l.Clock.Pass(2 * time.Hour)
	}
}

// sessionLists: locked records are listed with their principal, reasons and end; a
// principal's lock does not affect another principal.
func sessionLists(t *testing.T, l Life) {
	note := func(tenant, id, principal string, times int) {
		t.Helper()
		for i := range times {
			e := event(fmt.Sprint(tenant, id, i), memproxy.Deny, memproxy.ScreenRisk)
			e.Tenant, e.Principal = tenant, principal
			must.Get(l.NoteSession(t.Context(), e, id))(t)
		}
	}
	key := func(k memproxy.SessionKey) string { return k.ID() }
	odd := memproxy.SessionKey{Kind: memproxy.SessionNamed, Principal: "spiffe://a/b", User: "ann%/ü", Name: "s/1"}
	note("acme", odd.ID(), "spiffe://a/b", 3)
	note("acme", key(memproxy.SessionKey{Kind: memproxy.SessionNamed, Principal: "a", Name: "fine"}), "a", 2)
	note("acme", key(memproxy.SessionKey{Kind: memproxy.SessionUser, Principal: "a", User: "ann"}), "a", 10)
	note("acme", key(memproxy.SessionKey{Kind: memproxy.SessionUser, Principal: "a", User: "bob"}), "a", 9)
	note("acme", key(memproxy.SessionKey{Kind: memproxy.SessionPrincipal, Principal: "a"}), "a", 19)
	note("other", "x", "b", 3)
	expect.Equal(t, must.Get(l.Sessions.Get(t.Context(), new("acme"), "s/1"))(t).ID, odd.ID(), "by its name")
	kept, said := odd, odd
	kept.Name, said.Name = memproxy.InertSession("mine"), "mine"
	note("third", kept.ID(), "spiffe://a/b", 1)
	expect.Equal(t, must.Get(l.Sessions.Get(t.Context(), new("third"), said.ID()))(t).ID, kept.ID(), "by its id with the caller's name")
	for _, named := range []string{"agent-0190f3c2-deaf-4bad-beef-facade456789", memproxy.InertSession("yours")} {
		worker := memproxy.SessionKey{Kind: memproxy.SessionNamed, Principal: "spiffe://example.org/ns/billing/sa/export-worker", User: "ann", Name: named}
		note("fourth", worker.ID(), worker.Principal, 1)
		expect.Equal(t, must.Get(l.Sessions.Get(t.Context(), new("fourth"), memproxy.InertID(worker.ID())))(t).ID, worker.ID(), "as a notice names it")
		wantErr(t, "another tenant's, as a notice names it", errOf(l.Sessions.Get(t.Context(), new("third"), memproxy.InertID(worker.ID()))), ledger.ErrUnknown)
	}
	twin := odd
	twin.User = "bob"
	note("acme", twin.ID(), "spiffe://a/b", 1)
	wantErr(t, "a name that two have", errOf(l.Sessions.Get(t.Context(), new("acme"), "s/1")), ledger.ErrState)
	page, err := l.Other.Sessions.List(t.Context(), memproxy.SessionFilter{Tenant: new("acme")})
	must.That(t, err == nil && len(page.Sessions) == 2 && page.Next == "", "%+v, %v; want the two that are locked", page, err)
	if s := page.Sessions[0]; s.Kind != memproxy.SessionUser || s.User != "ann" || s.Principal != "a" || s.Limit != 10 || s.Until.IsZero() || len(s.Reasons) != 1 || s.Reasons[0].Count != 10 {
		t.Errorf("%+v", s)
	}
	if s := page.Sessions[1]; s.ID != odd.ID() || s.User != odd.User || s.Name != odd.Name || s.Principal != odd.Principal {
		t.Errorf("%+v, want %+v", s, odd)
	}
	page, err = l.Sessions.List(t.Context(), memproxy.SessionFilter{Tenant: new("acme"), Principal: "spiffe://a/b"})
	expect.That(t, err == nil && len(page.Sessions) == 1, "of one principal: %+v, %v", page, err)
	page, err = l.Sessions.List(t.Context(), memproxy.SessionFilter{Tenant: new(""), All: true})
	expect.That(t, err == nil && len(page.Sessions) == 0, "of those without a tenant: %+v, %v", page, err)
	expect.Equal(t, must.Get(l.Sessions.Get(t.Context(), nil, "x"))(t).Tenant, "other", "of any tenant")
	wantErr(t, "of none", errOf(l.Sessions.Get(t.Context(), new(""), "x")), ledger.ErrUnknown)
	note("beta", odd.ID(), "spiffe://a/b", 1)
	wantErr(t, "an id that two tenants have", errOf(l.Sessions.Get(t.Context(), nil, odd.ID())), ledger.ErrState)
	seen := map[string]bool{}
	for _, s := range must.Get(l.Sessions.List(t.Context(), memproxy.SessionFilter{All: true, Limit: 500}))(t).Sessions {
		seen[s.Tenant+" "+s.ID] = true
	}
	expect.Equal(t, seen["acme "+odd.ID()], true, "of every tenant", seen)
	expect.Equal(t, seen["beta "+odd.ID()], true, "of every tenant", seen)
	both := 0 // of one id, of two tenants, in pages of one
	for f := (memproxy.SessionFilter{All: true, Limit: 1}); ; f.After = page.Next {
		page, err = l.Sessions.List(t.Context(), f)
		must.That(t, err == nil && len(page.Sessions) == 1, "%+v, %v", page, err)
		if page.Sessions[0].ID == odd.ID() {
			both++
		}
		if page.Next == "" {
			break
		}
	}
	expect.Equal(t, both, 2, "page by page")
	wantErr(t, "a cursor that is none", errOf(l.Sessions.List(t.Context(), memproxy.SessionFilter{After: "nonsense"})), memproxy.ErrRefused)
	var all []string
	f := memproxy.SessionFilter{Tenant: new("acme"), All: true, Limit: 2}
	for {
		page := must.Get(l.Sessions.List(t.Context(), f))(t)
		must.Equal(t, len(page.Sessions) <= 2, true, page)
		for _, s := range page.Sessions {
			all = append(all, s.ID)
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	expect.Len(t, all, 6, "all of them")
	got, err := l.SessionLocked(t.Context(), "acme", memproxy.SessionKey{Kind: memproxy.SessionNamed, Principal: "c", User: odd.User, Name: odd.Name}.ID())
	expect.That(t, err == nil && got.ID == "", "another principal's session of that name: %+v, %v", got, err)
}

// sessionEnds: an idle session ends, is reported once, and is deleted later, unless it
// is locked.
func sessionEnds(t *testing.T, l Life) {
	ctx := t.Context()
	note := func(id string, verdict memproxy.Verdict, decisions ...string) {
		t.Helper()
		for _, d := range decisions {
			must.Get(l.NoteSession(ctx, event(d, verdict, memproxy.PolicyForbid), id))(t)
		}
	}
	end := func(of *ledger.Ledger, idle time.Duration, want int) {
		t.Helper()
		expect.Equal(t, must.Get(of.Sessions.End(ctx, l.Clock.Now().Add(-idle)))(t), want, "ended")
	}
	prune := func(want int, why string) {
		t.Helper()
		l.Clock.Pass(time.Second)
		gone, err := l.Upkeep.Maintain(ctx, l.Clock.Now(), ledger.Retention{Sessions: time.Nanosecond, Holds: time.Hour, Tombstones: time.Hour, Records: time.Hour})
		expect.That(t, err == nil && gone.Sessions == want, "pruned %d, %v; want %d: %s", gone.Sessions, err, want, why)
	}
	note("s1", memproxy.Deny, "d1")
	note("waiting", memproxy.Hold, "d2")
	end(l.Ledger, time.Hour, 0)
	l.Clock.Pass(2 * time.Hour)
	end(l.Ledger, time.Hour, 2)
	end(l.Other, time.Hour, 0)
	told, _, err := l.Notices.Due(ctx, 10, time.Minute)
	must.That(t, err == nil && len(told) == 2 && told[0].Kind == memproxy.NoticeEnded && told[0].Subject == "s1" && told[1].Subject == "waiting", "told of %+v, %v", told, err)
	var s memproxy.Session
	err = json.Unmarshal(told[0].Data, &s)
	expect.That(t, err == nil && fmt.Sprint(s.Reasons) == "[{policy.forbid  1}]" && s.Rejections == 1 && len(s.Refused) == 0, "told %s, %v", told[0].Data, err)
	note("s1", memproxy.Deny, "d3")
	prune(1, "one of them began again")
	note("s1", memproxy.Deny, "d4", "d5")
	l.Clock.Pass(2 * time.Hour)
	end(l.Ledger, 0, 1)
	prune(1, "its lock is over")
	note("s1", memproxy.Deny, "d6", "d7", "d8")
	l.Clock.Pass(30 * time.Minute)
	end(l.Ledger, 0, 1)
	prune(0, "to be forgotten must not unlock")
	expect.Equal(t, must.Get(l.SessionLocked(ctx, "acme", "s1"))(t).ID, "s1", "locked")
}

// sessionsOfUsers: one event counts in all of its records. While an end user's record
// is locked, events do not count in the caller's.
func sessionsOfUsers(t *testing.T, l Life) {
	for i := range 100 {
		locked, err := l.NoteSession(t.Context(), event(fmt.Sprint("d", i), memproxy.Deny, memproxy.ScreenRisk), "session:a/ann/s", "caller:a/ann", "caller:a")
		want := map[int]string{2: "session:a/ann/s", 9: "caller:a/ann"}[i]
		expect.That(t, err == nil && len(locked) <= 1 && (want != "") == (len(locked) == 1) && (want == "" || locked[0].ID == want),
			"rejection %d locks %+v, %v; want %q", i, locked, err, want)
	}
	for id, want := range map[string]int{"session:a/ann/s": 100, "caller:a/ann": 100, "caller:a": 10} {
		expect.Equal(t, must.Get(l.Sessions.Get(t.Context(), new("acme"), id))(t).Rejections, want, id)
	}
}
