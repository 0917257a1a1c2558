package panel

import (
	"strings"
	"testing"
)

// Proves GOV-2: the quick look for a trait's last word leaves out no text that
// its pattern matches.
func FuzzTraits(f *testing.F) {
	for _, text := range []string{
		"She is an ANXIOUS person.", "He was introverted", "Ann seems short-tempered today", "they are left-wing", "He ſeems insecure",
		"She is naive\u00e9", "Bob suffers from very low self-esteem", "he has an avoidant attachment", "has a high iq", "her sexual orientation",
		"Ann has a \u212aind of low intelligence", "is\nlazy", "political leaning", "is lazy_", "the type of personality", "", "-", "untrustworthy", "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen she is  so   very lazy2 and so lonely",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		may, from, to := mayMatch(text)
		for k, re := range patterns {
			all := re.FindAllStringIndex(text, -1)
			if may&(1<<k) == 0 && all != nil {
				t.Errorf("%q matches pattern %d and is left out", text, k)
			}
			if found := re.FindAllStringIndex(text[from:to], -1); may&(1<<k) != 0 && (len(found) != len(all) || all != nil && found[0][0]+from != all[0][0]) {
				t.Errorf("%q matches pattern %d in %v, and in %v of %d to %d", text, k, all, found, from, to)
			}
		}
	})
}

// Every alternative is found by its last word.
func TestLastWordsOfTraits(t *testing.T) {
	for k, trait := range traits {
		for phrase := range strings.SplitSeq(trait.tail, "|") {
			phrase = strings.TrimRight(phrase, ")")
			if may, _, _ := mayMatch(phrase); may&(1<<k) == 0 || strings.HasSuffix(phrase, "?") {
				t.Errorf("%q has no last word", phrase)
			}
		}
	}
	for _, text := range []string{"Ann is untrustworthy", "she has trust issues", "his psychological profile"} {
		if may, _, _ := mayMatch(text); may == 0 {
			t.Errorf("%q has no trait", text)
		}
	}
}

func BenchmarkTraits(b *testing.B) {
	text := strings.Repeat("Ann moved to Leeds last spring and works for the railway there. ", 8)
	b.ReportAllocs()
	for b.Loop() {
		may, from, to := mayMatch(text)
		for k, re := range patterns {
			if may&(1<<k) != 0 {
				re.MatchString(text[from:to])
			}
		}
	}
}
