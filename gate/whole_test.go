package gate_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/gate"
)

// most is a ledger that can do everything but tell changes out of band.
type most struct {
	gate.Ledger
	gate.Registrar
	gate.Historian
	gate.Undertaker
	gate.Confirmer
	gate.Arbiter
	gate.Corrector
	gate.Retractor
	gate.Lister
	gate.Tracker
}

// everything can do that, too.
type everything struct {
	most
	gate.Custodian
}

// A decorator that hides what a ledger can do is refused at start, by the names
// of all that would be off; nothing is off without a word. A whole one, wrapped
// or not, is taken.
//
// Proves EDGE-13, GOV-6.
func TestAPartialLedgerIsRefused(t *testing.T) {
	r := newRig(t, func(*rig) {})
	try := func(l gate.Ledger) error {
		_, err := gate.New(gate.Options{
			Identifier: r.identify, Ledger: l, Budget: r.counts(), Recorder: r.recorder, Signer: fakeSigner{}, Clock: r.clock, NewID: func() string { return "d" },
		}, r.rules)
		return err
	}
	if err := try(everything{}); err != nil {
		t.Errorf("a whole one: %v", err)
	}
	type decorator struct{ gate.Ledger }
	err := try(decorator{everything{}})
	if err == nil {
		t.Fatal("a decorator that hides everything is taken")
	}
	for _, name := range []string{"Sweeper", "Registrar", "Historian", "Undertaker", "Confirmer", "Arbiter", "Corrector", "Custodian", "Retractor", "Lister", "Tracker", "decorator"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	if err := try(most{}); err == nil || !strings.Contains(err.Error(), "Custodian (out-of-band changes)") || strings.Contains(err.Error(), "Registrar") {
		t.Errorf("all but one: %v", err)
	}
}
