package ledgertest

import (
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

// recordsFound: the content of a backend is recorded once, by its hashes. The progress
// survives a restart, and the seal ends it.
func recordsFound(t *testing.T, l Life) {
	if _, begun, err := l.Backends.SealProgress(t.Context(), "mem0"); begun || err != nil {
		t.Errorf("before: %v, %v", begun, err)
	}
	found := func(id, sha string) memproxy.Found { return memproxy.Found{MemoryKey: mem(id), SHA256: sha} }
	at := must.Get(l.Backends.RecordFound(t.Context(), memproxy.SealProgress{Backend: "mem0", Cursor: "2", Pass: 1}, found("a", "1"), found("b", ""), found("a", "2")))(t)
	expect.Equal(t, at, (memproxy.SealProgress{Backend: "mem0", Cursor: "2", Pass: 1, Fresh: 2, Found: 2}), "after a page")
	next, begun, err := l.Other.Backends.SealProgress(t.Context(), "mem0")
	must.Do(t, err)
	expect.That(t, begun && next == at, "the other one goes on at %+v, %v", next, begun)
	at, err = l.Other.Backends.RecordFound(t.Context(), memproxy.SealProgress{Backend: "mem0", Pass: 2, Found: 2}, found("a", "3"), found("c", "4"))
	must.Do(t, err)
	expect.That(t, at.Fresh == 1 && at.Found == 3, "after another pass: %+v", at)
	got, err := ledger.ByID(t.Context(), l, "mem0", memproxy.TargetMemory, "a", "b", "c", "d", "x\x00")
	must.Do(t, err)
	expect.That(t, len(got) == 3 && got["a"].FirstSeen == "1" && got["c"].FirstSeen == "4" && got["b"].Presence == memproxy.PresentAtSeal, "found %v", got)
	if got, err := ledger.ByID(t.Context(), l, "letta", memproxy.TargetMemory, "a"); len(got) > 0 || err != nil {
		t.Errorf("of another backend: %v, %v", got, err)
	}
	must.Do(t, l.Backends.Seal(t.Context(), "mem0"))
	_, begun, err = l.Backends.SealProgress(t.Context(), "mem0")
	expect.That(t, !begun && err == nil, "sealed: %v, %v", begun, err)
	put(t, l.Ledger, Row("owned"))
	for _, of := range []*ledger.Ledger{l.Ledger, l.Other} {
		got := must.Get(ledger.ByID(t.Context(), of, "mem0", memproxy.TargetMemory, "a", "d", "owned"))(t)
		expect.That(t, got["a"].Presence == memproxy.PresentAtSeal && got["d"].Presence == memproxy.AddedAfterSeal && got["owned"].Presence == memproxy.NotSealed,
			"of a sealed backend: %+v", got)
	}
	for _, bad := range []memproxy.SealProgress{{}, {Backend: "letta"}, {Backend: "mem0", Cursor: "\x00"}} {
		expect.Is(t, expect.Err(l.Backends.RecordFound(t.Context(), bad, found("e", ""))), ledger.ErrRow, bad)
	}
}

// claimed: one process at a time has a claim, and that process may extend it.
func claimed(t *testing.T, l Life) {
	claim := func(by *ledger.Ledger, name, holder string, want bool) {
		t.Helper()
		mine, err := by.Backends.Claim(t.Context(), name, holder, time.Hour)
		must.Do(t, err)
		expect.That(t, mine == want, "%s for %s: %v", name, holder, mine)
	}
	claim(l.Ledger, "sweep", "one", true)
	claim(l.Other, "sweep", "two", false)
	claim(l.Other, "seal", "two", true)
	l.Clock.Pass(59 * time.Minute)
	claim(l.Ledger, "sweep", "one", true)
	l.Clock.Pass(59 * time.Minute)
	claim(l.Other, "sweep", "two", false)
	l.Clock.Pass(2 * time.Minute)
	claim(l.Other, "sweep", "two", true)
	claim(l.Ledger, "sweep", "one", false)
	for _, lease := range []time.Duration{0, -1} {
		expect.Is(t, expect.Err(l.Backends.Claim(t.Context(), "sweep", "one", lease)), ledger.ErrRow, "a lease of", lease)
	}
}
