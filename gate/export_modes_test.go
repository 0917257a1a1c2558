// The steps of admission and their modes, for steps_test.go, which is in the slow ring.

//go:build slow

package gate

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// ModeNames are the modes of a ruling, in the order of their bits.
var ModeNames = [...]string{"client", "call", "preview", "decline", "replay", "restore", "recheck", "explain"}

// A Row is one row of admission.
type Row struct {
	Name   string
	Final  bool
	Broken memproxy.ReasonCode
	Modes  []bool // by ModeNames
}

// Rows exports the list of steps.
func Rows() []Row {
	var out []Row
	for _, s := range admission {
		r := Row{Name: strings.TrimPrefix(s.name, "gate."), Final: s.final, Broken: s.broken, Modes: make([]bool, len(ModeNames))}
		for i := range ModeNames {
			r.Modes[i] = s.modes>>i&1 != 0
		}
		out = append(out, r)
	}
	return out
}

// BreakStep has a step fail, also where it has nothing to do, until the test ends.
func BreakStep(t *testing.T, name string, err error) {
	i := slices.IndexFunc(admission[:], func(s step) bool { return s.name == "gate."+name })
	was := admission[i]
	t.Cleanup(func() { admission[i] = was })
	admission[i].when = nil
	admission[i].run = func(context.Context, *evaluation) error { return err }
}
