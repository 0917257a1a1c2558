package gate_test

import (
	"context"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/tamper"
	"github.com/memproxy/memproxy/internal/expect"
)

// historyLedger is a ledger that knows what memories were.
type historyLedger struct {
	*fakeLedger
	sealed bool
	wrote  map[string]memproxy.Ownership // by decision
	noted  map[string]memproxy.ReasonCode
}

func (c *historyLedger) Decision(_ context.Context, _, decision string) (memproxy.Ownership, bool, error) {
	row, known := c.wrote[decision]
	return row, known, c.broken
}

func (c *historyLedger) History(_ context.Context, k memproxy.MemoryKey, _ int64, _ int) ([]memproxy.Version, error) {
	if k.ID == "updated" {
		return []memproxy.Version{{Decision: "first"}}, c.broken
	}
	return nil, c.broken
}

func (c *historyLedger) Lookup(_ context.Context, keys ...memproxy.MemoryKey) (memproxy.Records, error) {
	return c.joined(keys, func(k memproxy.MemoryKey) (rec memproxy.Record) {
		if code, known := c.noted[k.ID]; known {
			rec.Status = memproxy.Status{MemoryKey: k, State: memproxy.StateValidated, Unverified: code}
		}
		if _, owned := c.rows[k.ID]; c.sealed && !owned && k.ID != "before" {
			rec.Presence = memproxy.AddedAfterSeal
		}
		return rec
	})
}

// Proves EDGE-4: stamps that belong to another memory, memories that nobody
// wrote, and what was found before, are named and left out where that is set;
// their neighbours are not, and nobody is accused while the ledger is away.
func TestLedgerRecordsContradictMemories(t *testing.T) {
	row := func(id, decision string) memproxy.Ownership {
		return memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: "acme"}, Decision: decision}
	}
	stamp := func(decision string) *memproxy.Stamp {
		return &memproxy.Stamp{ID: decision, Signature: "signed for acme"}
	}
	rows := map[string]memproxy.Ownership{}
	for id, decision := range map[string]string{
		"own": "d1", "robbed": "d2", "updated": "second", "noted": "d7", "chained": "d8",
	} {
		rows[id] = row(id, decision)
	}
	memories := []memproxy.Memory{
		{ID: "own", Text: "a", Stamp: stamp("d1")},
		{ID: "robbed", Text: "b", Stamp: stamp("d1")},
		{ID: "updated", Text: "c", Stamp: stamp("first")},
		{ID: "late", Text: "d", Stamp: stamp("async")},
		{ID: "copied", Text: "e", Stamp: stamp("d1")},
		{ID: "inserted", Text: "f"},
		{ID: "before", Text: "of whoever"}, // was there when it was sealed
		{ID: "agents", Text: "g", Mutable: true},
		{ID: "noted", Text: "k"},
		{ID: "chained", Text: "l"},
	}
	for i := range memories {
		memories[i].Pointer, memories[i].Scope.User = "/"+memories[i].ID, "ann"
	}
	want := map[string]memproxy.ReasonCode{
		"robbed": memproxy.IntegrityForged, "copied": memproxy.IntegrityForged, "inserted": memproxy.IntegrityUnknown,
		"noted": memproxy.IntegrityMismatch, "chained": memproxy.IntegrityChain,
	}
	for _, c := range []struct {
		name    string
		setting gate.Changed
		away    error
		shown   string
		named   map[string]memproxy.ReasonCode
	}{
		{"report", gate.ChangedReport, nil, "own,robbed,updated,late,copied,inserted,before,agents,noted,chained", want},
		{"withhold", gate.ChangedWithhold, nil, "own,updated,late,before,agents", want},
		{"ignore", gate.ChangedIgnore, nil, "own,robbed,updated,late,copied,inserted,before,agents,noted,chained", nil},
		{"away", gate.ChangedWithhold, errBroken, "own,robbed,updated,late,copied,inserted,before,agents,noted,chained", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ledger := &historyLedger{
				fakeLedger: &fakeLedger{rows: rows, broken: c.away}, sealed: true,
				wrote: map[string]memproxy.Ownership{"d1": rows["own"], "first": row("another", "first"), "async": {Kind: memproxy.TargetEvent, ID: "e"}},
				noted: map[string]memproxy.ReasonCode{"noted": memproxy.IntegrityMismatch, "chained": memproxy.IntegrityChain},
			}
			r := newRig(t, func(r *rig) {
				r.who.ActsAs, r.who.Users, r.rules.Changed, r.sweeper = all(), only("ann"), c.setting, ledger
			})
			r.fake.memories = memories
			a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
			expect.Equal(t, string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")}).Body), c.shown, "shown")
			named := map[string]memproxy.ReasonCode{}
			for _, reason := range r.recorder.last().Reasons {
				if reason.Rule != "" {
					named[reason.Rule] = reason.Code
				}
			}
			expect.Map(t, named, c.named, "named")
			if c.name == "report" && len(a.Unverified) != len(want) || c.name != "report" && len(a.Unverified) > 0 {
				t.Errorf("unverified %v", a.Unverified)
			}
		})
	}
}

// oneOf is a ledger that knows one row by its decision, and no history.
type oneOf struct {
	*fakeLedger
	row memproxy.Ownership
}

func (l *oneOf) Decision(context.Context, string, string) (memproxy.Ownership, bool, error) {
	return l.row, true, nil
}

func (l *oneOf) History(context.Context, memproxy.MemoryKey, int64, int) ([]memproxy.Version, error) {
	return nil, nil
}

// An agent that was made together with its blocks keeps the stamp of that
// decision, whatever of it is changed afterwards: it is not called forged. One
// that carries the stamp of what somebody else, or an earlier write, made is.
//
// Proves EDGE-15, EDGE-4.
func TestStampsOfWhatWasMadeTogether(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	block := memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: "block-1", Decision: "made", Actor: "agent:dev", Written: at}
	for name, c := range map[string]struct {
		row  memproxy.Ownership
		want memproxy.ReasonCode
	}{
		"made together, renamed since": {memproxy.Ownership{ID: "agent-1", Decision: "renamed", Actor: "agent:dev", Written: at}, ""},
		"made at another time":         {memproxy.Ownership{ID: "agent-1", Decision: "renamed", Actor: "agent:dev", Written: at.Add(time.Second)}, memproxy.IntegrityForged},
		"made by somebody else":        {memproxy.Ownership{ID: "agent-1", Decision: "renamed", Actor: "agent:qa", Written: at}, memproxy.IntegrityForged},
		"of which nobody knows when":   {memproxy.Ownership{ID: "agent-1", Decision: "renamed", Actor: "agent:dev"}, memproxy.IntegrityForged},
	} {
		e := tamper.Examiner{Ledger: &oneOf{newLedger(), block}, Signer: fakeSigner{}, Backend: "mem", Tenant: "acme"}
		c.row.Scope.Tenant = "acme"
		m := memproxy.Memory{ID: "agent-1", Kind: memproxy.TargetMemory, Stamp: &memproxy.Stamp{ID: "made", Signature: "signed for acme"}}
		got, _ := e.Examine(context.Background(), &c.row, &m)
		expect.That(t, got == c.want, "%s: %q, want %q", name, got, c.want)
	}
}

// What was found out about the bytes of a memory counts for the tenant and the key
// that it was found out for, and for no other.
func TestCachedAnswersAreOfOneTenantAndKey(t *testing.T) {
	m := memproxy.Memory{ID: "m1", Text: "tea", TextAt: "/memory", Memo: new(memproxy.Memo), Stamp: &memproxy.Stamp{ID: "d1", Signature: "signed for acme"}}
	row := func(tenant string) *memproxy.Ownership {
		return &memproxy.Ownership{ID: "m1", Decision: "d1", SHA256: memproxy.TextSHA256("tea"), Scope: memproxy.Scope{Tenant: tenant}}
	}
	for range 2 {
		for _, c := range []struct {
			signer gate.Signer
			tenant string
			want   memproxy.ReasonCode
		}{
			{fakeSigner{}, "acme", ""},
			{fakeSigner{}, "acme", ""},
			{fakeSigner{}, "other", memproxy.IntegrityForged},
			{noSigner{}, "acme", memproxy.IntegrityForged},
		} {
			e := tamper.Examiner{Ledger: newLedger(), Signer: c.signer, Backend: "mem", Tenant: c.tenant}
			got, _ := e.Examine(t.Context(), row(c.tenant), &m)
			expect.That(t, got == c.want, "%T for %s: %q, want %q", c.signer, c.tenant, got, c.want)
		}
	}
	changed := row("acme")
	changed.SHA256 = memproxy.TextSHA256("rum")
	e := tamper.Examiner{Ledger: newLedger(), Signer: fakeSigner{}, Backend: "mem", Tenant: "acme"}
	if got, _ := e.Examine(t.Context(), changed, &m); got != memproxy.IntegrityMismatch {
		t.Errorf("a record that says otherwise: %q", got)
	}
}

// noSigner has another key.
type noSigner struct{ fakeSigner }

func (noSigner) Verify(memproxy.Stamp) bool { return false }
