package gate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// decorator is a ledger around a ledger, written by somebody who knows of nothing
// but the interface.
type decorator struct{ gate.Ledger }

// meter counts the ledger's failures.
type meter struct {
	gate.Meter
	failed int
}

func (m *meter) LedgerFailed(context.Context) { m.failed++ }

// Proves EDGE-13, GOV-6: a decorator around a ledger switches no control off:
// states still withhold, track records still clamp, versions and sessions are kept.
func TestADecoratedLedgerLosesNothing(t *testing.T) {
	l := &fullLedger{fakeLedger: &fakeLedger{rows: map[string]memproxy.Ownership{"m1": owned("m1", "acme", "dev")}}, statuses: map[string]memproxy.Status{"m1": {State: memproxy.StateQuarantined}}, strikes: map[string]int{}}
	tracked := &trackedLedger{fullLedger: l}
	r := newRig(t, func(r *rig) {
		r.sweeper = decorator{decorator{tracked}}
		r.who.ActsAs = all()
	})
	r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: "text"}}
	a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
	if got := r.gate.Return(t.Context(), a, memproxy.Reply{Status: 200, Body: []byte("[]")}); string(got.Body) != "" {
		t.Errorf("a quarantined memory is shown: %s", got.Body)
	}
	r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "m2", Text: "a note", Event: "ADD"}}
	a = r.admit(learn("a note"))
	if r.fake.stamp.Confidence != 350 {
		t.Errorf("the confidence is %d: the author's record does not count", r.fake.stamp.Confidence)
	}
	r.gate.Return(t.Context(), a, memproxy.Reply{Status: 200, Body: []byte("{}")})
	if len(l.history) != 1 {
		t.Errorf("versions: %q", l.history)
	}
	r.rules.Policy = says(memproxy.Deny, memproxy.ScreenRisk)
	if r.admit(learn("another note")); len(l.strikes)+l.unsure == 0 {
		t.Error("a rejection is not counted")
	}
}

// trackedLedger knows an author who was corrected more often than not.
type trackedLedger struct{ *fullLedger }

func (*trackedLedger) Record(context.Context, string, string) (memproxy.Track, error) {
	return memproxy.Track{Facts: 10, Corrections: 400}, nil
}

// Proves CARD-6: each call of the ledger that fails is counted once, whoever made
// it.
func TestFailuresOfTheLedgerAreCounted(t *testing.T) {
	m := &meter{}
	l := gate.Metered(decorator{&fakeLedger{err: errBroken}}, m)
	if _, err := l.Lookup(t.Context(), memproxy.MemoryKey{ID: "m1"}); !errors.Is(err, errBroken) || m.failed != 1 {
		t.Errorf("%v, %d counted", err, m.failed)
	}
	if _, err := l.History(t.Context(), memproxy.MemoryKey{}, 0, 1); err != nil || m.failed != 1 {
		t.Errorf("%v, %d counted", err, m.failed)
	}
}
