package normal_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/screen/normal"
)

// A word with one typing error is corrected to itself or to another known word at the same
// distance; words at a distance of two, and plurals, are left alone.
//
// Proves SYN-3.
func TestMistypedWordsAreFound(t *testing.T) {
	// corrected returns what each of three such words becomes, or "".
	corrected := func(w string) string {
		for _, v := range normal.Read(strings.Repeat(w+" ", 3)).Views {
			if words := strings.Fields(v.Text); v.Name == normal.Scrambled && len(words) == 3 && words[0] == words[2] {
				return words[0]
			}
		}
		return ""
	}
	for _, w := range []string{"ignore", "previous", "instructions", "password", "memory", "system"} {
		for i := 1; i+1 < len(w); i++ {
			for _, wrong := range []string{
				w[:i] + w[i+1:], w[:i] + w[i:i+1] + w[i:], w[:i] + "q" + w[i+1:], w[:i] + "q" + w[i:], w[:i-1] + w[i:i+1] + w[i-1:i] + w[i+1:],
			} {
				if wrong == w || wrong == "systeem" {
					continue // two of the same letter have changed places, or a word of another language
				}
				expect.Equal(t, corrected(wrong), w, wrong)
			}
		}
	}
	for _, w := range []string{"qzxvq", "ignqqe", "instqqctions", "xkcd", "kubernetes", "trains", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		expect.Equal(t, corrected(w), "", w, "is read as")
	}
	expect.Equal(t, corrected("IGNROE"), "ignore", "capitals are read as")
}
