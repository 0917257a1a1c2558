package repo

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// ratchet compares what breaks a rule, counted by where, with a list of what is
// still to be put right. More is an error; so is less, so that the list shrinks
// with the code and never grows back.
func ratchet(t *testing.T, rule string, listed map[string]int, found map[string][]string) {
	t.Helper()
	for _, where := range slices.Sorted(maps.Keys(found)) {
		if n := len(found[where]); n > listed[where] {
			t.Errorf("%s: %s: %d, and %d may be:\n\t%s", where, rule, n, listed[where], strings.Join(found[where], "\n\t"))
		}
	}
	for _, where := range slices.Sorted(maps.Keys(listed)) {
		if n := len(found[where]); n < listed[where] {
			t.Errorf("%s: %s: only %d are left; the list says %d, lower it", where, rule, n, listed[where])
		}
	}
}
