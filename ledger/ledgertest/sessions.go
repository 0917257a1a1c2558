package ledgertest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger"
)

func event(decision string, verdict memproxy.Verdict, codes ...memproxy.ReasonCode) memproxy.SessionEvent {
	e := memproxy.SessionEvent{Tenant: "acme", Session: "s1", Principal: "agent:dev", Decision: decision, Verdict: verdict, Route: "mem0.v3.add"}
	for _, code := range codes {
		e.Reasons = append(e.Reasons, memproxy.Reason{Code: code, Detail: "because"})
	}
	return e
}

func sessionLocks(t *testing.T, l Life) {
	ctx := t.Context()
	note := func(e memproxy.SessionEvent, want bool) memproxy.Session {
		t.Helper()
		s, locked, err := l.NoteSession(ctx, e)
		if err != nil || locked != want {
			t.Errorf("%s: locked %v, %v; want %v", e.Decision, locked, err, want)
		}
		return s
	}
	isLocked := func(want bool) {
		t.Helper()
		if got, err := l.Other.SessionLocked(ctx, "acme", "s1"); err != nil || (got.ID == "s1") != want {
			t.Errorf("locked: %v, %v; want %v", got, err, want)
		}
	}
	isLocked(false)
	note(event("d0", memproxy.Allow), false)
	note(event("d1", memproxy.Deny, memproxy.PolicyForbid), false)
	note(event("d1", memproxy.Deny, memproxy.PolicyForbid), false) // the same once more
	note(event("d2", memproxy.Hold, memproxy.PolicyForbid), false)
	note(event("d3", memproxy.Deny, memproxy.PolicyForbid, memproxy.TrustClamped), false)
	isLocked(false)
	note(event("d4", memproxy.Deny, memproxy.FieldForbidden), true)
	isLocked(true)
	note(event("d5", memproxy.Deny, memproxy.FieldForbidden), false)

	s, err := l.Other.Session(ctx, "acme", "s1")
	if err != nil || s.Rejections != 4 || s.Held != 1 || s.Passed != 1 || s.Locked.IsZero() || len(s.Refused) != 5 {
		t.Errorf("session %+v, %v", s, err)
	}
	if got := fmt.Sprint(s.Reasons); got != "[{policy.forbid  3} {field.forbidden  2} {trust.clamped  1}]" {
		t.Errorf("reasons %s", got)
	}
	if e := s.Refused[1]; e.Decision != "d2" || e.Verdict != memproxy.Hold || e.Reasons[0].Detail != "because" || e.Time.IsZero() {
		t.Errorf("refusal %+v", e)
	}
	wantErr(t, "its own principal", l.Unlock(ctx, "acme", "s1", by("agent:dev")), ledger.ErrOwnReview)
	wantErr(t, "no such session", l.Unlock(ctx, "other", "s1", by("human:ann")), ledger.ErrUnknown)
	must(t, "Unlock", l.Unlock(ctx, "acme", "s1", by("human:ann")))
	isLocked(false)
	wantErr(t, "unlocked already", l.Unlock(ctx, "acme", "s1", by("human:ann")), ledger.ErrState)
	note(event("d6", memproxy.Deny), false)
	note(event("d7", memproxy.Deny), false)
	note(event("d8", memproxy.Deny), true)
	_, _, err = l.NoteSession(ctx, memproxy.SessionEvent{Tenant: "acme", Decision: "d9"})
	wantErr(t, "no session", err, ledger.ErrRow)
	for i := range 130 {
		note(event(fmt.Sprint("flood", i), memproxy.Deny, memproxy.PolicyForbid), false)
	}
	if s, err = l.Session(ctx, "acme", "s1"); err != nil || len(s.Refused) != 100 || s.Rejections != 137 || s.Refused[99].Decision != "flood129" {
		t.Errorf("%d refusals of %d are kept, %v", len(s.Refused), s.Rejections, err)
	}
}

// sessionWindows: rejections that count within a window only.
func sessionWindows(t *testing.T, l Life) {
	n := 0
	note := func(want bool) {
		t.Helper()
		n++
		e := event(fmt.Sprint("w", n), memproxy.Deny, memproxy.PolicyForbid)
		e.Session = "caller:agent:dev/ann"
		if _, locked, err := l.NoteSession(t.Context(), e); err != nil || locked != want {
			t.Errorf("%s: locked %v, %v; want %v", e.Decision, locked, err, want)
		}
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
		if got, err := l.Other.SessionLocked(t.Context(), "acme", "s9", "caller:agent:dev/ann", "caller:agent:dev/bob", "caller:agent:dev"); err != nil || got.ID != want {
			t.Errorf("locked: %+v, %v; want %q", got, err, want)
		}
		if want != "" {
			must(t, "Unlock", l.Unlock(t.Context(), "acme", want, by("human:ann")))
			l.Clock.Pass(time.Second)
		}
	}
	for range 9 { // an unlocked one begins anew
		note(false)
	}
	note(true)
}

// sessionLocksEnd: a lock lasts an hour from the last rejection that counted,
// and counting begins anew.
func sessionLocksEnd(t *testing.T, l Life) {
	for _, id := range []string{"session:agent:dev/ann/s", "caller:agent:dev/ann", "caller:agent:dev"} {
		limit := memproxy.DefaultLockLimits().Of(memproxy.SessionKeyOf(id).Kind)
		n := 0
		reject := func(times int) (s memproxy.Session, last bool) {
			t.Helper()
			for range times {
				n++
				e := event(fmt.Sprint(id, n), memproxy.Deny, memproxy.ScreenRisk)
				e.Session = id
				var err error
				if s, last, err = l.NoteSession(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			return s, last
		}
		locked := func(want bool) {
			t.Helper()
			got, err := l.Other.SessionLocked(t.Context(), "acme", id)
			if err != nil || (got.ID == id) != want || want && !got.Until.After(l.Clock.Now()) {
				t.Errorf("%s: %+v, %v; want it locked: %v", id, got, err, want)
			}
		}
		if _, last := reject(limit - 1); last {
			t.Errorf("%s: locked too early", id)
		}
		s, last := reject(1)
		if !last || s.Limit != limit || !s.Until.Equal(s.Struck.Add(time.Hour)) {
			t.Errorf("%s: %+v, %v; want it locked for an hour", id, s, last)
		}
		locked(true)
		l.Clock.Pass(59 * time.Minute)
		locked(true)
		l.Clock.Pass(time.Minute)
		locked(false)
		if s, err := l.Session(t.Context(), "acme", id); err != nil || !s.Locked.IsZero() {
			t.Errorf("%s: %+v, %v", id, s, err)
		}
		wantErr(t, "nothing to unlock", l.Unlock(t.Context(), "acme", id, by("human:ann")), ledger.ErrState)
		if _, last := reject(limit - 1); last {
			t.Errorf("%s: the rejections of the lock before count", id)
		}
		locked(false)
		if _, last := reject(1); !last {
			t.Errorf("%s: not locked again", id)
		}
		l.Clock.Pass(2 * time.Hour)
	}
}

// sessionLists: what is locked is listed with whose it is, why and until when;
// one principal's lock is none of another's.
func sessionLists(t *testing.T, l Life) {
	note := func(tenant, id, principal string, times int) {
		t.Helper()
		for i := range times {
			e := event(fmt.Sprint(tenant, id, i), memproxy.Deny, memproxy.ScreenRisk)
			e.Tenant, e.Session, e.Principal = tenant, id, principal
			_, _, err := l.NoteSession(t.Context(), e)
			must(t, "NoteSession", err)
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
	if s, err := l.Session(t.Context(), "acme", "s/1"); err != nil || s.ID != odd.ID() {
		t.Errorf("by its name: %+v, %v", s, err)
	}
	twin := odd
	twin.User = "bob"
	note("acme", twin.ID(), "spiffe://a/b", 1)
	_, err := l.Session(t.Context(), "acme", "s/1")
	wantErr(t, "a name that two have", err, ledger.ErrState)
	page, err := l.Other.Sessions(t.Context(), memproxy.SessionFilter{Tenant: "acme"})
	if err != nil || len(page.Sessions) != 2 || page.Next != "" {
		t.Fatalf("%+v, %v; want the two that are locked", page, err)
	}
	if s := page.Sessions[0]; s.Kind != memproxy.SessionUser || s.User != "ann" || s.Principal != "a" || s.Limit != 10 || s.Until.IsZero() || len(s.Reasons) != 1 || s.Reasons[0].Count != 10 {
		t.Errorf("%+v", s)
	}
	if s := page.Sessions[1]; s.ID != odd.ID() || s.User != odd.User || s.Name != odd.Name || s.Principal != odd.Principal {
		t.Errorf("%+v, want %+v", s, odd)
	}
	if page, err = l.Sessions(t.Context(), memproxy.SessionFilter{Tenant: "acme", Principal: "spiffe://a/b"}); err != nil || len(page.Sessions) != 1 {
		t.Errorf("of one principal: %+v, %v", page, err)
	}
	note("beta", odd.ID(), "spiffe://a/b", 1)
	seen := map[string]bool{}
	if page, err = l.Sessions(t.Context(), memproxy.SessionFilter{All: true, Limit: 500}); err != nil {
		t.Fatal(err)
	}
	for _, s := range page.Sessions {
		seen[s.Tenant+" "+s.ID] = true
	}
	if !seen["acme "+odd.ID()] || !seen["beta "+odd.ID()] {
		t.Errorf("of every tenant: %v", seen)
	}
	var all []string
	f := memproxy.SessionFilter{Tenant: "acme", All: true, Limit: 2}
	for {
		page, err := l.Sessions(t.Context(), f)
		if err != nil || len(page.Sessions) > 2 {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, s := range page.Sessions {
			all = append(all, s.ID)
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	if len(all) != 6 {
		t.Errorf("all of them: %q", all)
	}
	if got, err := l.SessionLocked(t.Context(), "acme", memproxy.SessionKey{Kind: memproxy.SessionNamed, Principal: "c", User: odd.User, Name: odd.Name}.ID()); err != nil || got.ID != "" {
		t.Errorf("another principal's session of that name: %+v, %v", got, err)
	}
}

func sessionEnds(t *testing.T, l Life) {
	ctx := t.Context()
	_, _, err := l.NoteSession(ctx, event("d1", memproxy.Deny, memproxy.PolicyForbid))
	must(t, "NoteSession", err)
	clean := event("d2", memproxy.Allow)
	clean.Session = "clean"
	_, _, err = l.NoteSession(ctx, clean)
	must(t, "NoteSession", err)
	if ended, err := l.EndSessions(ctx, l.Clock.Now().Add(-time.Hour)); err != nil || len(ended) != 0 {
		t.Errorf("ended too early: %v, %v", ended, err)
	}
	l.Clock.Pass(2 * time.Hour)
	ended, err := l.EndSessions(ctx, l.Clock.Now().Add(-time.Hour))
	if err != nil || len(ended) != 2 {
		t.Errorf("ended: %v, %v", ended, err)
	}
	if again, err := l.Other.EndSessions(ctx, l.Clock.Now().Add(-time.Hour)); err != nil || len(again) != 0 {
		t.Errorf("ended twice: %v, %v", again, err)
	}
	told, _, err := l.Notices(ctx, 10, time.Minute)
	if err != nil || len(told) != 1 || told[0].Kind != memproxy.NoticeEnded || told[0].Subject != "s1" {
		t.Fatalf("told of %+v, %v; want the one with a refusal", told, err)
	}
	var s memproxy.Session
	if err := json.Unmarshal(told[0].Data, &s); err != nil || len(s.Reasons) != 1 || s.Rejections != 1 {
		t.Errorf("told %s, %v", told[0].Data, err)
	}
	_, _, err = l.NoteSession(ctx, event("d3", memproxy.Deny)) // it begins again
	must(t, "NoteSession", err)
	if n, err := l.PruneSessions(ctx, l.Clock.Now()); err != nil || n != 1 {
		t.Errorf("pruned %d, %v; want the clean one", n, err)
	}
	for _, d := range []string{"d4", "d5"} {
		_, _, err = l.NoteSession(ctx, event(d, memproxy.Deny))
		must(t, "NoteSession", err)
	}
	l.Clock.Pass(2 * time.Hour)
	_, err = l.EndSessions(ctx, l.Clock.Now())
	must(t, "EndSessions", err)
	if n, err := l.PruneSessions(ctx, l.Clock.Now()); err != nil || n != 1 {
		t.Errorf("pruned %d, %v; its lock is over", n, err)
	}
	for _, d := range []string{"d6", "d7", "d8"} {
		_, _, err = l.NoteSession(ctx, event(d, memproxy.Deny))
		must(t, "NoteSession", err)
	}
	l.Clock.Pass(30 * time.Minute)
	_, err = l.EndSessions(ctx, l.Clock.Now())
	must(t, "EndSessions", err)
	l.Clock.Pass(time.Second)
	if n, err := l.PruneSessions(ctx, l.Clock.Now()); err != nil || n != 0 {
		t.Errorf("pruned %d, %v; to be forgotten must not unlock", n, err)
	}
}
