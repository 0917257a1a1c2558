package gate

import (
	"fmt"
	"strings"
)

// abilities are what a ledger must be able to do besides Ledger, each with the
// controls that would be gone with it.
var abilities = [...]struct {
	name, controls string
	in             func(Ledger) bool
}{
	{"Sweeper", "deletion of everything within a scope", can[Sweeper]},
	{"Registrar", "states of memories, quarantine, pending review", can[Registrar]},
	{"Historian", "versions and rollbacks", can[Historian]},
	{"Undertaker", "versions of what a sweep deletes", can[Undertaker]},
	{"Confirmer", "expiry", can[Confirmer]},
	{"Arbiter", "dissent", can[Arbiter]},
	{"Corrector", "corrections", can[Corrector]},
	{"Custodian", "out-of-band changes", can[Custodian]},
	{"Retractor", "retracted texts that are written anew", can[Retractor]},
	{"Lister", "what answers are made of", can[Lister]},
	{"Tracker", "track records", can[Tracker]},
}

func can[T any](l Ledger) bool {
	_, ok := l.(T)
	return ok
}

// missing names what a ledger cannot do. A decorator that embeds Ledger hides
// all of it.
func missing(l Ledger) []string {
	var out []string
	for _, a := range abilities {
		if !a.in(l) {
			out = append(out, a.name+" ("+a.controls+")")
		}
	}
	return out
}

// whole is an error for a ledger without all that the controls need.
func whole(l Ledger) error {
	if lacks := missing(l); len(lacks) > 0 {
		return fmt.Errorf("gate: the ledger (%T) lacks %s; controls would be off without a word", l, strings.Join(lacks, ", "))
	}
	return nil
}
