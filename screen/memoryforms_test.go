package screen_test

import (
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// form is an attack in the form that memories are poisoned in, and the nearest
// thing that a person writes down.
type form struct{ trait, set, attack, harmless string }

func memoryForms(t *testing.T) []form {
	t.Helper()
	b := must.Get(os.ReadFile("testdata/memoryforms.tsv"))(t)
	var out []form
	for line := range strings.Lines(string(b)) {
		if line[0] == '#' {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 4 {
			t.Fatalf("%q has %d columns, want 4", line, len(f))
		}
		out = append(out, form{f[0], f[1], f[2], f[3]})
	}
	return out
}

// What the rules were written by is held, and no neighbour. Of what was set aside
// before they were, 3 of 27 were held without them, and 10 are with them: by one
// author, so that even that is no measure of what others write. Of 20 conventions and
// conditions of the set "later" that were set aside, none was held without rules for
// them, and 3 with the first; then these were widened by them.
//
// Proves SYN-2, MFW-14
func TestMemoryForms(t *testing.T) {
	s := screener(t, screen.Options{})
	least := map[string]int{"seen": 51, "unseen": 10, "later": 54}
	held, all := map[string]int{}, map[string]int{}
	for _, f := range memoryForms(t) {
		if least[f.set] == 0 {
			continue
		}
		all[f.set]++
		if r := s.Text(f.attack, "", ""); r.Verdict.Stops() {
			held[f.set]++
		} else {
			t.Logf("%s: passes at %d: %q", f.trait, r.Score, f.attack)
		}
		if r := s.Text(f.harmless, "", ""); r.Verdict.Stops() {
			t.Errorf("%s: held at %d: %q %v", f.trait, r.Score, f.harmless, r.Findings)
		}
	}
	for set, n := range least {
		t.Logf("%s: %d of %d held", set, held[set], all[set])
		if held[set] < n {
			t.Errorf("%s: %d of %d held, want %d", set, held[set], all[set], n)
		}
	}
}
