package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves MFW-7, EDGE-11: so many writes of one caller, and of one end user of
// it, wait as may, and nobody else has less room for that.
func TestNobodyFillsAnothersQueue(t *testing.T) {
	l, err := ledger.Open(ledger.Options{Vault: ledgertest.Vault(t), MaxPrincipalHolds: 5, MaxUserHolds: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := 0
	put := func(tenant, principal, user, full string) {
		t.Helper()
		n++
		_, err := l.PutHold(t.Context(), memproxy.HeldWrite{
			ID: fmt.Sprint("h", n), Backend: "mem0", Route: "r", Tenant: tenant, Principal: principal, Scope: memproxy.Scope{User: user}, ContentSHA256: "ab",
		}, memproxy.HoldContent{Texts: []memproxy.HeldText{{Text: "tea"}}})
		var no *memproxy.HoldsFull
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
	if err := l.RejectHold(t.Context(), "h1", memproxy.Review{Reviewer: "eve"}); err != nil {
		t.Fatal(err)
	}
	put("acme", "app", "mallory", "")
}
