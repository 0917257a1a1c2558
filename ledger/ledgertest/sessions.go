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
		if got, err := l.Other.SessionLocked(ctx, "acme", "s1"); err != nil || (got == "s1") != want {
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
		e.Session, e.Strikes, e.Window = "caller:agent:dev", 4, time.Hour
		if _, locked, err := l.NoteSession(t.Context(), e); err != nil || locked != want {
			t.Errorf("%s: locked %v, %v; want %v", e.Decision, locked, err, want)
		}
	}
	for range 3 { // more than lock an ordinary session, but too old by then
		note(false)
	}
	l.Clock.Pass(2 * time.Hour)
	for range 3 {
		note(false)
	}
	note(true)
	for _, want := range []string{"caller:agent:dev", ""} {
		if got, err := l.Other.SessionLocked(t.Context(), "acme", "s9", "caller:agent:dev"); err != nil || got != want {
			t.Errorf("locked: %q, %v; want %q", got, err, want)
		}
		if want != "" {
			must(t, "Unlock", l.Unlock(t.Context(), "acme", want, by("human:ann")))
			l.Clock.Pass(time.Second)
		}
	}
	for range 3 { // an unlocked one begins anew
		note(false)
	}
	note(true)
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
	told, err := l.Notices(ctx, 10, time.Minute)
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
	if n, err := l.PruneSessions(ctx, l.Clock.Now()); err != nil || n != 0 {
		t.Errorf("pruned %d, %v; to wait must not unlock", n, err)
	}
}
