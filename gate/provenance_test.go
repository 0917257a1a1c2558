package gate_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// keeping is an adapter that keeps what it is given to rewrite.
type keeping struct {
	fakeReader
	rd *memproxy.Reading
}

func (k *keeping) Rewrite(rt memproxy.Route, req memproxy.Request, reply memproxy.Reply, rd *memproxy.Reading) ([]byte, error) {
	k.rd = rd
	return k.fakeReader.Rewrite(rt, req, reply, rd)
}

// Proves MFW-8, EDGE-3: what a reader is told about a memory is the ledger's, else a
// verified stamp's, else that nothing is known; what another tenant owns is
// left out, also of an answer about something of one's own. What was changed or copied in
// the backend has no known confidence and attestation, and a copied stamp says nothing.
// Messages, receipts and what is missing have no provenance.
func TestProvenance(t *testing.T) {
	k := &keeping{}
	r := newRig(t, func(r *rig) { r.adapter, r.fake, r.who.ActsAs = k, &k.fakeAdapter, all() })
	mine := owned("mine", "acme", "dev")
	mine.Actor, mine.Confidence, mine.Decision = "agent:writer", 600, "d-mine"
	r.ledger.rows["mine"] = mine
	r.ledger.rows["theirs"] = owned("theirs", "globex", "dev")
	changed := mine
	changed.ID = "changed"
	r.ledger.rows["changed"] = changed
	r.ledger.statuses["changed"] = memproxy.Status{Tenant: "acme", Unverified: memproxy.IntegrityMismatch, Attestation: memproxy.HumanConfirmed}
	r.ledger.statuses["copied"] = memproxy.Status{State: memproxy.StateUntrusted, Tenant: "acme", Unverified: memproxy.IntegrityForged}
	stamp := func(signature string) *memproxy.Stamp {
		return &memproxy.Stamp{ID: "d-mine", Actor: "agent:stamped", Confidence: 800, Attestation: memproxy.ToolObserved, Signature: signature}
	}
	r.fake.memories = []memproxy.Memory{
		{Pointer: "/0", ID: "mine", Stamp: stamp("signed for acme")},
		{Pointer: "/1", ID: "stamped", Stamp: stamp("signed for acme")},
		{Pointer: "/2", ID: "forged", Stamp: stamp("no")},
		{Pointer: "/3", ID: "unknown"},
		{Pointer: "/4", ID: "theirs", Stamp: stamp("signed for globex")},
		{Pointer: "/5", ID: "said", Layer: memproxy.Episodic},
		{Pointer: "/6", ID: "receipt", Kind: memproxy.TargetEvent},
		{Pointer: "/7"},
		{Pointer: "/8", ID: "changed", Stamp: stamp("signed for acme")},
		{Pointer: "/9", ID: "copied", Stamp: stamp("signed for acme")},
	}
	r.fake.op = byID(memproxy.Recall, "mine") // it is settled: what nobody else owns of the answer is the target's
	for _, ask := range []bool{false, true} {
		c := r.call(r.fake.op)
		c.ReadOptions.Provenance = ask
		delete(r.ledger.rows, "copied") // this ledger does not know which memory a stamp belongs to
		r.gate.Return(context.Background(), r.gate.Admit(context.Background(), c), memproxy.Reply{Status: 200, Body: []byte("[]")})
		for i, want := range []string{"agent:writer 600 d-mine tool-observed", "agent:stamped 800 d-mine tool-observed", " 0  unknown integrity.forged", " 0  unknown", "-", "-", "-", "-", "agent:writer 0 d-mine unknown integrity.mismatch", " 0  unknown integrity.forged"} {
			got, p := "-", k.rd.Memories[i].ShowProvenance
			if p != nil {
				got = join(p)
			}
			if !ask {
				want = "-"
			}
			expect.Equal(t, got, want, "asked", ask, k.rd.Memories[i].ID)
		}
	}
}

func join(p *memproxy.Provenance) string {
	out := fmt.Sprintf("%s %d %s %s", p.Actor, p.Confidence, p.Decision, p.Attestation)
	if p.Unverified != "" {
		out += " " + string(p.Unverified)
	}
	return out
}
