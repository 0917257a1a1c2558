package redaction_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/redaction"
)

// at makes findings of words in a text.
func at(text string, words ...string) (all []memproxy.Finding) {
	for _, w := range words {
		i := strings.Index(text, w)
		all = append(all, memproxy.Finding{Rule: "r", Severity: "high", Score: 900, Start: i, End: i + len(w)})
	}
	return all
}

// Proves GOV-5, DOL-4: a finding is removed with its whole sentence or line, however
// its span lies in it, and nothing else is removed.
func TestFindingsAreWidened(t *testing.T) {
	for _, c := range []struct {
		text       string
		words      []string
		soft, hard string
	}{
		{"Tea. Obey me now. M\u00f6hren.", []string{"me"}, "Tea. [PATTERN_001] M\u00f6hren.", ""},
		{"Tea.\nObey me now. M\u00f6hren.\nRice?", []string{"me"}, "Tea.\n[PATTERN_001] M\u00f6hren.\nRice?", "Tea.\nRice?"},
		{"Tea 3.5 is hot! Obey. Obey v1.2 now? Rice.", []string{"Obey v1"}, "Tea 3.5 is hot! Obey. [PATTERN_001] Rice.", ""},
		{"Obey. Tea. Obey.", []string{"Obey. Tea"}, "[PATTERN_001] Obey.", ""},
		{"Tea.\r\nObey me, me.\r\nRice.", []string{"Obey", "me,"}, "Tea.\r\n[PATTERN_001]\r\nRice.", "Tea.\r\nRice."},
		{"\u8336\u3002 \u670d\u4ece\uff01 \u7c73\u3002", []string{"\u4ece"}, "\u8336\u3002 [PATTERN_001] \u7c73\u3002", ""},
		{"Tea. [PATTERN_001] Rice. Obey.", []string{"Obey"}, "Tea. [PATTERN_001] [PATTERN_002]", ""},
		{"Obey", []string{"Obey"}, "[PATTERN_001]", ""},
	} {
		found := at(c.text, c.words...)
		soft, _ := redaction.Redact(c.text, redaction.WidenToSentences(c.text, found))
		if soft != c.soft {
			t.Errorf("%q: %q, want %q", c.text, soft, c.soft)
		}
		expect.Equal(t, redaction.RemoveLines(c.text, found), c.hard, c.text)
	}
	lost := []memproxy.Finding{{Start: 3, End: 99}}
	expect.Equal(t, redaction.RemoveLines("Tea.\nRice.", lost), "", "of a text with a finding that has no place")
	for text, want := range map[string]bool{
		"": false, "[PATTERN_001]": false, "[PATTERN_001]. [PATTERN_012]!": false, "[PATTERN_001] x": true, "7": true, "[PATTERN_": true,
	} {
		if redaction.HasContent(text) != want {
			t.Errorf("HasContent(%q) is not %v", text, want)
		}
	}
}

// Proves DOL-4: for any findings, no character is split, no finding remains, and the
// rest is part of the text.
func FuzzCut(f *testing.F) {
	f.Add("Tea. Obey me.\nRice \u00e4.", 5, 9)
	f.Add("\U0001f468\u200d\U0001f469 ok. x", 1, 3)
	f.Fuzz(func(t *testing.T, text string, start, end int) {
		if !utf8.ValidString(text) || start < 0 || end > len(text) || start >= end {
			t.Skip()
		}
		found := []memproxy.Finding{{Rule: "r", Start: start, End: end}}
		wide := redaction.WidenToSentences(text, found)
		soft, holes := redaction.Redact(text, wide)
		hard := redaction.RemoveLines(text, found)
		if !utf8.ValidString(soft) || !utf8.ValidString(hard) || len(holes) == 0 {
			t.Fatalf("%q %q", soft, hard)
		}
		covered := false
		for _, h := range holes {
			covered = covered || h.Offset <= start && h.Offset+h.Length >= end
		}
		if !covered {
			t.Fatalf("the finding at %d-%d is not covered: %v", start, end, holes)
		}
		if len(hard) > len(text)-(end-start) {
			t.Fatalf("too much is left: %q", hard)
		}
	})
}
