package screen_test

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// Proves MFW-3, SYN-2: what is planted in nineteen languages is held, by
// the rules for them alone as well, and their neighbours are not. Each language has
// an override, a standing order, what asks for the instructions, what an
// assistant that reads is told, a persona, concealment, and what asks for keys.
func TestTongues(t *testing.T) {
	all := screener(t, screen.Options{})
	rules := screener(t, screen.Options{Disable: []string{screen.LayerLexicon, screen.LayerClassify}})
	n := map[string]int{}
	for _, c := range columns(t, "tongues/attacks.tsv", 2) {
		n[c[0]]++
		expect.That(t, all.Text(c[1], "", "").Verdict.Stops(), "%s: passes: %s", c[0], c[1])
		expect.That(t, rules.Text(c[1], "", "").Verdict.Stops(), "%s: passes the rules: %s", c[0], c[1])
	}
	for _, c := range columns(t, "tongues/benign.tsv", 2) {
		r := all.Text(c[1], "", "")
		expect.That(t, !r.Verdict.Stops(), "%s: is held: %s %v", c[0], c[1], r.Findings)
	}
	for language := range words(t) {
		expect.That(t, n[language] >= 7, "%s has words and %d cases", language, n[language])
	}
	expect.That(t, len(n) >= 18, "%d languages", len(n))
}

// words are the entries of each language by concept.
func words(t *testing.T) map[string]map[string][]string {
	t.Helper()
	files := must.Get(fs.Glob(screen.Files(), "tongues/*.txt"))(t)
	out := map[string]map[string][]string{}
	for _, f := range files {
		language := strings.TrimSuffix(path.Base(f), ".txt")
		if language == "rules" || language == "any" || language == "restraints" { // of no language
			continue
		}
		b := must.Get(fs.ReadFile(screen.Files(), f))(t)
		concept := ""
		out[language] = map[string][]string{}
		for line := range strings.Lines(string(b)) {
			line, _, _ = strings.Cut(line, "#")
			if line != "" && line[0] >= 'A' && line[0] <= 'Z' {
				concept, line, _ = strings.Cut(line, ":")
			}
			for entry := range strings.SplitSeq(line, ",") {
				if entry = strings.TrimSpace(entry); entry != "" {
					out[language][concept] = append(out[language][concept], entry)
				}
			}
		}
	}
	return out
}

// A word that English has, too, is marked: else English prose would be read as
// what another language says with it.
func TestWhatIsEnglishTooIsMarked(t *testing.T) {
	b := must.Get(os.ReadFile("normal/words.txt"))(t)
	english := strings.Fields(string(b))
	for language, concepts := range words(t) {
		for concept, entries := range concepts {
			for _, entry := range entries {
				if concept == "LOAN" || strings.Contains(entry, " ") || slices.Contains(concepts["LOAN"], entry) {
					continue
				}
				prefix, open := strings.CutSuffix(entry, "*")
				expect.That(t, !slices.ContainsFunc(english, func(w string) bool { return w == prefix || open && strings.HasPrefix(w, prefix) }),
					"%s: %s %q is English, too, and not in LOAN", language, concept, entry)
			}
		}
	}
}
