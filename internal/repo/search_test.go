package repo

import (
	"cmp"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/ring"
)

// section is a heading with what it leads, as a search engine indexes it.
type section struct {
	file, heading string
	words         map[string]float64
	length        float64
	score         float64 // of the last search
}

var (
	term     = regexp.MustCompile(`[a-z0-9_]+`)
	question = regexp.MustCompile(`(?ms)^\*\*(\d+)\. (.+?)\*\*\n(.*?)(?:^\*\*|^## |\z)`)
	heading  = regexp.MustCompile(`(?m)^#+ .*$`)
	toFile   = regexp.MustCompile(`\]\(([a-z-]+\.md)`)
	fence    = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```")
	small    = strings.Fields("a an and are as at be by can do does for from how i if in is it its may my of on or our so that the them there they this to was we what when where which who why will with you your")
)

// terms are a text's words, plurals and questions' small words apart.
func terms(text string) (out []string) {
	for _, w := range term.FindAllString(strings.ToLower(text), -1) {
		if !slices.Contains(small, w) {
			out = append(out, strings.TrimSuffix(w, "s"))
		}
	}
	return out
}

func sections(t *testing.T) (all []section) {
	t.Helper()
	for _, file := range markdown(t) {
		name := filepath.Base(file)
		if dir := filepath.Dir(file); dir != "docs" && file != "README.md" || name == "questions.md" || name == "proofs.md" {
			continue // the questions themselves, and what is generated from tests
		}
		text := fence.ReplaceAllString(read(t, file), "") // a # in it is no heading
		at := append(heading.FindAllStringIndex(text, -1), []int{len(text)})
		for i := range len(at) - 1 {
			s := section{file: name, heading: text[at[i][0]:at[i][1]], words: map[string]float64{}}
			for _, w := range append(terms(text[at[i][1]:at[i+1][0]]), slices.Repeat(terms(s.heading), 3)...) {
				s.words[w]++
				s.length++
			}
			all = append(all, s)
		}
	}
	return all
}

// search ranks sections by BM25.
func search(all []section, query string) []section {
	mean, in := 0.0, map[string]float64{}
	for _, s := range all {
		mean += s.length / float64(len(all))
		for w := range s.words {
			in[w]++
		}
	}
	asked := terms(query)
	score := func(s section) (sum float64) {
		for _, w := range asked {
			n := s.words[w]
			sum += math.Log(1+(float64(len(all))-in[w]+.5)/(in[w]+.5)) * n * 2.2 / (n + 1.2*(.25+.75*s.length/mean))
		}
		return sum
	}
	found := slices.Clone(all)
	for i := range found {
		found[i].score = score(found[i])
	}
	slices.SortStableFunc(found, func(a, b section) int { return cmp.Compare(b.score, a.score) })
	return found
}

// Proves EDGE-18: who asks one of the 20 questions of docs/questions.md of a search
// finds the document that answers it first.
func TestQuestionsFindTheirAnswers(t *testing.T) {
	ring.Long(t, "one file after another")
	all, n := sections(t), 0
	text := read(t, "docs/questions.md")
	for at := 0; ; {
		m := question.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		q, answer := text[at+m[4]:at+m[5]], text[at+m[6]:at+m[7]]
		at += m[7]
		n++
		var to []string
		for _, l := range toFile.FindAllStringSubmatch(answer, -1) {
			to = append(to, l[1])
		}
		found := search(all, q)
		if !slices.Contains(to, found[0].file) {
			t.Errorf("%s\n\tanswered in %v; found:", q, to)
			for _, s := range found[:5] {
				t.Errorf("\t%s %s", s.file, s.heading)
			}
		}
	}
	expect.Equal(t, n, 20)
}
