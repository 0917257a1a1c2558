package gate_test

import (
	"context"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves MFW-8: a reader that asks for a minimum of trust gets no memory of
// less, and none of which nothing is known; who does not ask gets all. What holds
// memories is shown with those of them that are.
func TestMinimumTrust(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.who.ActsAs = all()
		for id, c := range map[string]memproxy.PerMille{"high": 900, "low": 300} {
			r.ledger.rows[id] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: "acme"}, Confidence: c}
		}
	})
	r.fake.memories = []memproxy.Memory{
		{Pointer: "/0", ID: "high"}, {Pointer: "/1", ID: "low"}, {Pointer: "/2", ID: "unknown"},
		{Pointer: "/3", ID: "stamped", Stamp: &memproxy.Stamp{Signature: "signed for acme", Confidence: 800}},
		{Pointer: "/4", ID: "forged", Stamp: &memproxy.Stamp{Signature: "no", Confidence: 1000}},
		{Pointer: "/5", ID: "holder", Holder: true},
	}
	for least, want := range map[memproxy.PerMille]string{0: "high,low,unknown,stamped,forged,holder", 300: "high,low,stamped,holder", 700: "high,stamped,holder", 850: "high,holder"} {
		r.fake.op = memproxy.Operation{Kind: memproxy.Recall}
		c := r.call(r.fake.op)
		c.Wishes.MinTrust = least
		got := r.gate.Return(context.Background(), r.gate.Admit(context.Background(), c), memproxy.Reply{Status: 200, Body: []byte("[]")})
		if string(got.Body) != want {
			t.Errorf("%d: %s, want %s", least, got.Body, want)
		}
	}
	r.fake.memories = []memproxy.Memory{{Pointer: "", ID: "low"}}
	c := r.call(r.fake.op)
	c.Wishes.MinTrust = 700
	if got := r.gate.Return(context.Background(), r.gate.Admit(context.Background(), c), memproxy.Reply{Status: 200, Body: []byte("{}")}); got.Status != 404 {
		t.Errorf("one memory of less: %d", got.Status)
	}
}
