package panel

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// traitsIn are the spans of traits in a text.
func traitsIn(text string) (all [][2]int) {
	op := &memproxy.Operation{Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text}}}
	for _, f := range new(Panel).persons(op, nil) {
		all = append(all, [2]int{f.Start, f.End})
	}
	return all
}

// traitPatterns are the expressions as they read, with counted repetitions.
func traitPatterns() (all []*regexp.Regexp) {
	for _, line := range strings.Split(strings.TrimSpace(traits), "\n")[1:] {
		line = strings.ReplaceAll(strings.TrimSpace(line), "DEGREES", `(?:(?:`+degrees+`)\s+){0,4}`)
		line = strings.ReplaceAll(line, `(?:\w+\s+(?:\w+\s+)?)?`, `(?:\w+\s+){0,2}`)
		all = append(all, regexp.MustCompile("(?i)"+line))
	}
	return all
}

// Proves GOV-2: what is found of traits is what their patterns match, one by one, and
// nothing else.
func FuzzTraits(f *testing.F) {
	for _, text := range []string{
		"She is an ANXIOUS person.", "He was introverted", "Ann seems short-tempered today", "they are left-wing", "He ſeems insecure",
		"She is naive\u00e9", "Bob suffers from very low self-esteem", "he has an avoidant attachment", "has a high iq", "her sexual orientation",
		"Ann has a \u212aind of low intelligence", "is\nlazy", "political leaning", "is lazy_", "the type of personality", "", "-", "untrustworthy", "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen she is  so   very lazy2 and so lonely",
		"is so so so so lazy", "is so so so so so lazy", "has the most low iq", "has the two most low iq",
	} {
		f.Add(text)
	}
	patterns := traitPatterns()
	f.Fuzz(func(t *testing.T, text string) {
		var want [][2]int
		for _, re := range patterns {
			for _, at := range re.FindAllStringIndex(text, -1) {
				want = append(want, [2]int(at))
			}
		}
		slices.SortFunc(want, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
		if got := traitsIn(text); len(want) < 16 && !slices.Equal(got, slices.Compact(want)) {
			t.Errorf("%q: found %v, want %v", text, got, want)
		}
	})
}

// Every alternative is found, and a text full of them has a bounded number of findings
// that cover it.
func TestTraits(t *testing.T) {
	heads := []string{"Ann is ", "Ann has a very ", "her "}
	for k, line := range strings.Split(strings.TrimSpace(traits), "\n")[1:] {
		_, tail, _ := strings.Cut(line[strings.LastIndex(line, "("+[]string{"anxious|", "low self", "personality type"}[k]):], "(")
		tail = strings.NewReplacer("an? (?:anxious|avoidant) ", "an avoidant ", "(?:intelligence|iq)", "iq", `)\b`, "").Replace(tail)
		for phrase := range strings.SplitSeq(tail, "|") {
			if text := heads[k] + phrase; len(traitsIn(text)) != 1 {
				t.Errorf("%q: %v", text, traitsIn(text))
			}
		}
	}
	many := strings.Repeat("She is lazy. ", 100)
	if all := traitsIn(many); len(all) == 0 || len(all) > 16 || all[len(all)-1][1] != len(many) {
		t.Errorf("%v", all)
	}
}

func BenchmarkTraits(b *testing.B) {
	text := strings.Repeat("Ann moved to Leeds last spring and works for the railway there. ", 8)
	b.ReportAllocs()
	for b.Loop() {
		lexiconOfTraits().Find(text)
	}
}
