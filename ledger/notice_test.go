package ledger_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves EDGE-11, MFW-10: while delivery fails, one tenant's notices do not displace
// those of others.
func TestUndeliveredNoticesAreLimitedPerTenant(t *testing.T) {
	l := open(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t), OnNotice: func() {}, MaxNotices: 8})
	flag := func(tenant string, n int) {
		t.Helper()
		k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprintf("%s-%d", tenant, n)}
		must.Get(l.SetState(t.Context(), memproxy.StateChange{MemoryKey: k, Tenant: tenant, State: memproxy.StateFlagged, Reason: "test"}))(t)
	}
	flag("acme", 1)
	for n := range 20 {
		flag("evil", n)
	}
	flag("acme", 2)
	list, _, err := l.Notices.Due(t.Context(), 100, time.Minute)
	must.Do(t, err)
	var got []string
	for _, n := range list {
		got = append(got, n.Subject)
	}
	want := "[acme-1 evil-14 evil-15 evil-16 evil-17 evil-18 evil-19 acme-2]"
	expect.Equal(t, fmt.Sprint(got), want, got, "wait")
}

// The deliverer is woken once a queued notice is visible, and learns when the next is
// due; without a deliverer nothing is queued.
//
// Proves MFW-10.
func TestQueuedNoticesWakeTheDeliverer(t *testing.T) {
	clock := ledgertest.NewClock()
	noticed := make(chan struct{}, 8)
	for name, told := range map[string]func(){"a deliverer": func() { noticed <- struct{}{} }, "none": nil} {
		l := open(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t), Clock: clock.Now, OnNotice: told})
		flagged := memproxy.StateChange{MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m"}, Tenant: "acme", State: memproxy.StateFlagged, Reason: "test"}
		must.Get(l.SetState(t.Context(), flagged))(t)
		want := 0
		if told != nil {
			want = 1
		}
		must.Len(t, noticed, want, name, "is told")
		due, next, err := l.Notices.Due(t.Context(), 10, time.Minute)
		expect.That(t, err == nil && len(due) == want && next.IsZero() == (want == 0) && (want != 1 || next.Sub(clock.Now()).Round(time.Second) == time.Minute),
			"%s: %+v, more at %v, %v", name, due, next, err)
		for _, n := range due {
			must.Do(t, l.Notices.MarkDelivered(t.Context(), n.ID))
			<-noticed
		}
		due, next, err = l.Notices.Due(t.Context(), 10, time.Minute)
		expect.That(t, err == nil && len(due) == 0 && next.IsZero(), "%s: %+v, more at %v, %v", name, due, next, err)
	}
	expect.Len(t, noticed, 0, "a delivery is told as something new")
}
