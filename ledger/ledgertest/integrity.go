package ledgertest

import (
	"fmt"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

func cast(t *testing.T, l Life, id string, code memproxy.ReasonCode) int {
	t.Helper()
	n := must.Get(l.Backends.Flag(t.Context(), memproxy.Discrepancy{MemoryKey: mem(id), Tenant: "acme", Code: code}))(t)
	return n
}

// doubted: an integrity flag is independent of a memory's state. It stays until it is
// cleared or a text that was written through the proxy replaces the flagged one.
func doubted(t *testing.T, l Life) {
	set(t, l, "m", memproxy.StateValidated)
	expect.Equal(t, cast(t, l, "m", memproxy.IntegrityMismatch), 1)
	expect.Equal(t, cast(t, l, "m", memproxy.IntegrityMismatch), 0, "the same again is a change")
	set(t, l, "m", memproxy.StateFlagged)
	st := status(t, l, "m")
	expect.That(t, st.Unverified == memproxy.IntegrityMismatch && st.State == memproxy.StateFlagged, "%+v", st)
	expect.Equal(t, cast(t, l, "m", ""), 1, "taken back", status(t, l, "m"))
	expect.Equal(t, status(t, l, "m").Unverified, "", "taken back", status(t, l, "m"))
	cast(t, l, "unknown", memproxy.IntegrityUnknown)
	st = status(t, l, "unknown")
	expect.That(t, st.Unverified == memproxy.IntegrityUnknown && st.State == memproxy.StateUntrusted && !st.Changed.IsZero(), "of a memory that nothing is recorded of: %+v", st)

	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{Version("m", "one")}}))
	cast(t, l, "m", memproxy.IntegrityMismatch)
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{Version("m", "two")}}))
	expect.Equal(t, status(t, l, "m").Unverified, "", "after another text")
	for _, d := range []memproxy.Discrepancy{{}, {MemoryKey: mem("a\x00")}, {MemoryKey: mem("a"), Tenant: "a\x00"}} {
		expect.Is(t, expect.Err(l.Backends.Flag(t.Context(), d)), ledger.ErrRow, d)
	}
}

// breached: a breach is stored and flags the memories with records after it, later ones
// included, until a person accepts it.
func breached(t *testing.T, l Life) {
	for i := range 4 {
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{Version(fmt.Sprint("m", i), "text")}}))
	}
	cut := memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "cut", Scope: memproxy.Scope{Tenant: "acme", User: "ann"}, Actor: "agent:dev", SHA256: memproxy.TextSHA256("cut")}
	receipt := cut
	receipt.Kind, receipt.ID = memproxy.TargetEvent, "receipt"
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{cut, receipt}}))
	f := memproxy.ChainFault{Class: memproxy.FaultTamper, Tenant: "acme", Position: 3, MemoryKey: mem("m2"), Detail: "the record was changed"}
	for i := range 2 {
		fresh := must.Get(l.Chains.NoteBreach(t.Context(), f))(t)
		expect.Equal(t, fresh, i == 0, "time", i, "fresh")
	}
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{Version("later", "text")}}))
	for id, want := range map[string]bool{"m0": false, "m1": false, "m2": true, "m3": true, "later": true, "cut": true} {
		expect.Equal(t, status(t, l, id).Unverified == memproxy.IntegrityChain, want, id, "doubted")
	}
	events := must.Get(ledger.ByID(t.Context(), l, "mem0", memproxy.TargetEvent, "receipt"))(t)
	expect.Equal(t, events["receipt"].Status.Unverified, "", "a receipt, which has no versions, is unverified")
	expect.Equal(t, cast(t, l, "m3", ""), 0, "the doubt about what is behind a break was taken back")
	expect.Equal(t, status(t, l, "m3").Unverified, memproxy.IntegrityChain, "the doubt about what is behind a break was taken back")
	elsewhere := Version("elsewhere", "text")
	elsewhere.Tenant = "other"
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{elsewhere}}))
	expect.Equal(t, status(t, l, "elsewhere").Unverified, "", "another tenant's memory is doubted")
	all := must.Get(l.Other.Chains.Breaches(t.Context(), "acme"))(t)
	expect.That(t, len(all) == 1 && all[0].Class == f.Class && all[0].Position == 3, "%+v", all)
	expect.Len(t, must.Get(l.Chains.Breaches(t.Context(), "other"))(t), 0)

	// A person accepts the breach, which clears the flags; later versions are not flagged.
	text := memproxy.ChainFault{Class: memproxy.FaultText, Tenant: "acme", Position: 4, MemoryKey: mem("m3"), Detail: "the text is gone"}
	end, cleared, err := l.Chains.Accept(t.Context(), "acme", []memproxy.ChainFault{f, text})
	must.Do(t, err)
	expect.That(t, end.Tenant == "acme" && end.Position == 5 && end.Link != "" && cleared == 3, "it goes on from %+v, %d are cleared", end, cleared)
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{Version("after", "text")}}))
	for id, want := range map[string]bool{"m0": false, "m2": false, "m3": true, "later": false, "after": false} {
		expect.Equal(t, status(t, l, id).Unverified == memproxy.IntegrityChain, want, "accepted", id, "doubted")
	}
	all, err = l.Other.Chains.Breaches(t.Context(), "acme")
	expect.That(t, err == nil && len(all) == 1 && all[0].Accepted, "%+v, %v", all, err)
	report, err := l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{Texts: true, Anchor: &end})
	must.Do(t, err)
	expect.That(t, report.Open() == 0 && report.Head.Position == 6, "%+v", report)
	f.Position = 6
	if fresh, err := l.Chains.NoteBreach(t.Context(), f); err != nil || !fresh || status(t, l, "after").Unverified != memproxy.IntegrityChain {
		t.Errorf("the next one: fresh %v, %v", fresh, err)
	}
}

// backendSealed: sealed backends are stored.
func backendSealed(t *testing.T, l Life) {
	is := func(backend string) bool {
		t.Helper()
		sealed := must.Get(l.Backends.Sealed(t.Context(), backend))(t)
		return sealed
	}
	expect.Equal(t, is("mem0"), false, "nothing was sealed")
	for range 2 {
		must.Do(t, l.Backends.Seal(t.Context(), "mem0"))
	}
	expect.That(t, is("mem0") && !is("letta") && !is(""), "one was sealed")
	expect.Is(t, l.Backends.Seal(t.Context(), ""), ledger.ErrRow, "no backend")
}
