package screen_test

import (
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// columns reads the lines of a file of testdata, which have so many columns.
func columns(t *testing.T, file string, n int) (lines [][]string) {
	t.Helper()
	for line := range strings.Lines(string(must.Get(os.ReadFile("testdata/" + file))(t))) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if line[0] == '#' {
			continue
		}
		must.Len(t, f, n, file, line)
		lines = append(lines, f)
	}
	return lines
}

// neighbours holds that poison of a source and a trust is stopped, and the nearest thing
// that a person writes down is not. It returns what is said of the poison.
func neighbours(t *testing.T, s *screen.Screener, poison, harmless, source, trust string) screen.Report {
	t.Helper()
	r := s.Text(poison, source, trust)
	expect.That(t, r.Verdict.Stops(), "%q passes at %d: %v", poison, r.Score, r.Findings)
	if r := s.Text(harmless, source, trust); r.Verdict.Stops() {
		t.Errorf("%q is held at %d: %v", harmless, r.Score, r.Findings)
	}
	return r
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
	for _, f := range columns(t, "memoryforms.tsv", 4) {
		trait, set, attack, harmless := f[0], f[1], f[2], f[3]
		if least[set] == 0 {
			continue
		}
		all[set]++
		if r := s.Text(attack, "", ""); r.Verdict.Stops() {
			held[set]++
		} else {
			t.Logf("%s: passes at %d: %q", trait, r.Score, attack)
		}
		r := s.Text(harmless, "", "")
		expect.That(t, !r.Verdict.Stops(), "%s: held at %d: %q %v", trait, r.Score, harmless, r.Findings)
	}
	for set, n := range least {
		t.Logf("%s: %d of %d held", set, held[set], all[set])
		expect.That(t, held[set] >= n, "%s: %d of %d held, want %d", set, held[set], all[set], n)
	}
}
