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
		"Ann has a \u212aind of low intelligence", "is\nlazy", "political leaning", "is lazy_", "the type of personality", "", "-", "untrustworthy",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		may := mayMatch(text)
		for k, re := range patterns {
			if may&(1<<k) == 0 && re.MatchString(text) {
				t.Errorf("%q matches pattern %d and is left out", text, k)
			}
		}
	})
}

// Every alternative is found by its last word.
func TestLastWordsOfTraits(t *testing.T) {
	for k, trait := range traits {
		for phrase := range strings.SplitSeq(trait.tail, "|") {
			phrase = strings.TrimRight(phrase, ")")
			if mayMatch(phrase)&(1<<k) == 0 || strings.HasSuffix(phrase, "?") {
				t.Errorf("%q has no last word", phrase)
			}
		}
	}
	for _, text := range []string{"Ann is untrustworthy", "she has trust issues", "his psychological profile"} {
		if mayMatch(text) == 0 {
			t.Errorf("%q has no trait", text)
		}
	}
}

func BenchmarkTraits(b *testing.B) {
	text := strings.Repeat("Ann moved to Leeds last spring and works for the railway there. ", 8)
	b.ReportAllocs()
	for b.Loop() {
		may := mayMatch(text)
		for k, re := range patterns {
			if may&(1<<k) != 0 {
				re.MatchString(text)
			}
		}
	}
}
