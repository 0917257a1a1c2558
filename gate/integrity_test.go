package gate_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// Proves EDGE-4: a memory whose text is not the one that went through, or
// whose stamp is forged, is named in the record of the read, and left out where
// that is set; what nobody has a hash of, or what the backend's own agents
// change, is not accused.
func TestChangesBehindTheProxyAreSeen(t *testing.T) {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])
	}
	rows := map[string]memproxy.Ownership{}
	for _, id := range []string{"same", "changed", "mutable", "unhashed"} {
		rows[id] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: "acme"}, SHA256: hash("tea")}
	}
	unhashed := rows["unhashed"]
	unhashed.SHA256 = ""
	rows["unhashed"] = unhashed
	memories := []memproxy.Memory{
		{Pointer: "/0", ID: "same", Text: "tea", TextAt: "/0/memory"},
		{Pointer: "/1", ID: "changed", Text: "poison", TextAt: "/1/memory"},
		{Pointer: "/2", ID: "mutable", Text: "new", TextAt: "/2/memory", Mutable: true},
		{Pointer: "/3", ID: "unhashed", Text: "new", TextAt: "/3/memory"},
		{Pointer: "/4", ID: "forged", Text: "x", TextAt: "/4/memory", Stamp: &memproxy.Stamp{Signature: "no"}},
		{Pointer: "/5", ID: "signed", Text: "x", TextAt: "/5/memory", Stamp: &memproxy.Stamp{Signature: "signed for acme"}},
	}
	for setting, want := range map[gate.Changed]struct {
		shown string
		named int
	}{
		gate.ChangedReport:   {"same,changed,mutable,unhashed,forged,signed", 2},
		gate.ChangedWithhold: {"same,mutable,unhashed,signed", 2},
		gate.ChangedIgnore:   {"same,changed,mutable,unhashed,forged,signed", 0},
		"":                   {"same,changed,mutable,unhashed,forged,signed", 2},
	} {
		r := newRig(t, func(r *rig) { r.who.ActsAs = all(); r.rules.Changed = setting; r.ledger.rows = rows })
		r.fake.memories = memories
		got := r.gate.Return(context.Background(), r.admit(memproxy.Operation{Kind: memproxy.Recall}), memproxy.Reply{Status: 200, Body: []byte("[]")})
		last := r.recorder.events[len(r.recorder.events)-1]
		if string(got.Body) != want.shown || len(last.Reasons) != want.named {
			t.Errorf("%q: %s, %+v", setting, got.Body, last.Reasons)
		}
		if want.named > 0 && (last.Reasons[0].Code != memproxy.IntegrityForged || last.Reasons[0].Rule != "forged" || last.Reasons[1].Rule != "changed") {
			t.Errorf("%q: %+v", setting, last.Reasons)
		}
		// One memory, whose owner is known before it is fetched.
		r.fake.memories = []memproxy.Memory{{Pointer: "", ID: "changed", Text: "poison", TextAt: "/memory"}}
		one := r.gate.Return(context.Background(), r.admit(memproxy.Operation{Kind: memproxy.Recall, Targets: []string{"changed"}, TargetKind: memproxy.TargetMemory}), memproxy.Reply{Status: 200, Body: []byte("{}")})
		if (one.Status == 404) != (setting == gate.ChangedWithhold) {
			t.Errorf("%q: one memory: %d", setting, one.Status)
		}
	}
}
