package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves MFW-7, EDGE-11: each caller, and each of its end users, has a limit of held
// writes that does not reduce others' room.
func TestQueueLimitsPerCallerAndUser(t *testing.T) {
	l := must.Get(ledger.Open(ledger.Options{Timeout: ring.Limit, Vault: ledgertest.Vault(t), MaxPrincipalHolds: 5, MaxUserHolds: 3}))(t)
	defer l.Close()
	n := 0
	put := func(tenant, principal, user, full string) {
		t.Helper()
		n++
		_, err := l.Holds.Put(t.Context(), memproxy.HeldWrite{
			ID: fmt.Sprint("h", n), Backend: "mem0", Route: "r", Tenant: tenant, Principal: principal, Scope: memproxy.Scope{User: user}, ContentSHA256: "ab",
		}, memproxy.HoldContent{Texts: []memproxy.HeldText{{Text: "tea"}}})
		var no *memproxy.HoldLimitError
		if errors.As(err, &no); err != nil && no == nil || (no != nil) != (full != "") || no != nil && no.Key != full {
			t.Errorf("%s for %q: %v, want %q", principal, user, err, full)
		}
	}
	for range 3 {
		put("acme", "app", "mallory", "")
	}
	put("acme", "app", "mallory", "holds/app/mallory")
	put("acme", "app", "ann", "")
	put("acme", "app", "", "")
	put("acme", "app", "bob", "holds/app")
	put("acme", "peer", "mallory", "")
	put("other", "app", "mallory", "")
	must.Do(t, l.Holds.Reject(t.Context(), "h1", memproxy.Review{Reviewer: "eve"}))
	put("acme", "app", "mallory", "")
}

// Proves TRL-1: anonymous sessions of one address share one queue limit and one record;
// another address has its own.
func TestAnonymousSessionsShareAQueue(t *testing.T) {
	l := must.Get(ledger.Open(ledger.Options{Timeout: ring.Limit, Vault: ledgertest.Vault(t), MaxPrincipalHolds: 3}))(t)
	defer l.Close()
	here, there := strings.Repeat("0a", 8), strings.Repeat("0b", 8)
	for i, tc := range []struct{ address, session, full string }{
		{here, strings.Repeat("1c", 8), ""}, {here, "", ""}, {here, strings.Repeat("2d", 8), ""},
		{here, strings.Repeat("3e", 8), "holds/anonymous:" + here}, {here, "", "holds/anonymous:" + here}, {there, "", ""},
	} {
		_, err := l.Holds.Put(t.Context(), memproxy.HeldWrite{
			ID: fmt.Sprint("h", i), Backend: "mem0", Route: "r", Principal: memproxy.AnonymousID(tc.address, tc.session), Trust: memproxy.TrustAnonymous, ContentSHA256: "ab",
		}, memproxy.HoldContent{Texts: []memproxy.HeldText{{Text: "tea"}}})
		var no *memproxy.HoldLimitError
		if errors.As(err, &no); err != nil && no == nil || (no != nil) != (tc.full != "") || no != nil && no.Key != tc.full {
			t.Errorf("hold %d: %v, want %q", i, err, tc.full)
		}
	}
	author := memproxy.AnonymousID(here, strings.Repeat("1c", 8))
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m", Actor: author}}}))
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Corrections: []memproxy.Correction{{MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "m"}, Author: author, Corrector: "human:ann", Decision: "d"}}}))
	if got, err := l.Track(t.Context(), "", memproxy.Account(author)); err != nil || got.Facts != 1 || got.Corrections != 1 {
		t.Errorf("the address has the record %+v %v", got, err)
	}
}
