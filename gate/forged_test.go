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
