package ledgertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

// clockAhead: claims, delays and locks of a process whose clock was ten years ahead for
// a while are over once the clock is right.
func clockAhead(t *testing.T, l Life) {
	const wrong, session = 10 * 365 * 24 * time.Hour, "session:agent:dev/ann/s"
	ctx, v := t.Context(), Version("m", "text")
	must.Do(t, l.Commit(ctx, memproxy.Entry{Versions: []memproxy.Version{v}}))
	l.Clock.Pass(wrong)
	hold(t, l, "h", "secret words")
	must.Get(l.Holds.Approve(ctx, "h", by("human:ann")))(t)
	must.Get(l.Holds.Claim(ctx, "h", time.Minute))(t)
	must.Get(l.Rollbacks.Approve(ctx, v, by("human:bob")))(t)
	must.Do(t, l.Rollbacks.Begin(ctx, memproxy.Rollback{MemoryKey: v.MemoryKey, Tenant: v.Tenant, Decision: "d1", Reviewer: "human:bob", Reason: "x", Number: 1}, time.Minute))
	sweep := func(holder string, want bool) {
		t.Helper()
		expect.Equal(t, must.Get(l.Backends.Claim(ctx, "sweep", holder, time.Hour))(t), want, "a sweep of", holder)
	}
	sweep("one", true)
	for i := range memproxy.DefaultLockLimits().Of(memproxy.SessionNamed) {
		must.Get(l.NoteSession(ctx, event(fmt.Sprint("n", i), memproxy.Deny, memproxy.ScreenRisk), session))(t)
	}
	locked := func(want bool) {
		t.Helper()
		lock, err := l.Other.SessionLocked(ctx, "acme", session)
		page, perr := l.Sessions.List(ctx, memproxy.SessionFilter{Tenant: new("acme")})
		expect.That(t, err == nil && perr == nil && (lock.ID == session) == want && (len(page.Sessions) == 1) == want, "locked %+v, %v, listed %+v, %v; want %v", lock, err, page, perr, want)
	}
	locked(true)
	if due, _, err := l.Notices.Due(ctx, 10, time.Minute); err != nil || len(due) == 0 {
		t.Errorf("notices %+v, %v", due, err)
	}
	l.Clock.Pass(-wrong)
	locked(false)
	sweep("two", true)
	sweep("one", false)
	expect.Len(t, must.Get(l.Rollbacks.Unfinished(ctx, time.Minute))(t), 1, "rollbacks")
	expect.Len(t, must.Get(l.Rollbacks.Unfinished(ctx, time.Minute))(t), 0, "claimed twice")
	if due, _, err := l.Notices.Due(ctx, 10, time.Minute); err != nil || len(due) == 0 {
		t.Errorf("notices %+v, %v", due, err)
	}
	if again, _, err := l.Notices.Due(ctx, 10, time.Minute); err != nil || len(again) != 0 {
		t.Errorf("given out twice: %+v, %v", again, err)
	}
	expect.Len(t, must.Get(l.Holds.ExpiredClaims(ctx))(t), 1, "stranded")
	must.Get(l.Holds.Resolve(ctx, "h", memproxy.HoldApproved, memproxy.HoldResult{}))(t)
}

// oneClock: leases of processes that share a database use the database's clock, so that
// a process whose own clock is ten minutes ahead does not take over what another is
// working on.
func oneClock(t *testing.T, exec func(url, statement string), address string) {
	url := Schema(t, address)
	exec(url, `CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + interval ''1 day'''`)
	before, after, _ := strings.Cut(url+"&", "&")
	l := OpenPostgres(t, ledger.Options{URL: before + "%2Cpg_catalog&" + after, Vault: Vault(t), Timeout: time.Minute})
	h, c := Held("h", "a text")
	must.Get(l.Holds.Put(t.Context(), h, c))(t)
	must.Get(l.Holds.Approve(t.Context(), "h", by("human:ann")))(t)
	claim := must.Get(l.Holds.Claim(t.Context(), "h", time.Hour))(t)
	ahead := time.Until(claim.Hold.Lease)
	expect.That(t, ahead >= 24*time.Hour, "the lease ends %v from now, by the process's own clock", ahead)
	expect.Len(t, must.Get(l.Holds.ExpiredClaims(t.Context()))(t), 0, "within the lease")
}
