package ledger_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves EDGE-11, MFW-10: while nobody can be told, one tenant's notices do not
// push those of others out.
func TestNobodysNoticesPushOthersOut(t *testing.T) {
	l := open(t, ledger.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Vault: ledgertest.Vault(t), Noticed: func() {}, MaxNotices: 8})
	flag := func(tenant string, n int) {
		t.Helper()
		k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprintf("%s-%d", tenant, n)}
		if _, err := l.SetState(t.Context(), memproxy.StateChange{MemoryKey: k, Tenant: tenant, State: memproxy.StateFlagged, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	flag("acme", 1)
	for n := range 20 {
		flag("evil", n)
	}
	flag("acme", 2)
	list, _, err := l.Notices(t.Context(), 100, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range list {
		got = append(got, n.Subject)
	}
	want := "[acme-1 evil-14 evil-15 evil-16 evil-17 evil-18 evil-19 acme-2]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v wait, want %v", got, want)
	}
}
