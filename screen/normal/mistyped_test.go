package normal

import (
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/screen/terms"
)

// A word with one typing error is corrected to itself or to another known word at the same
// distance; words at a distance of two, and plurals, are left alone.
//
// Proves SYN-3.
func TestMistypedWordsAreFound(t *testing.T) {
	n := typed()
	for _, w := range []string{"ignore", "previous", "instructions", "password", "memory", "system"} {
		for i := 1; i+1 < len(w); i++ {
			for _, wrong := range []string{
				w[:i] + w[i+1:], w[:i] + w[i:i+1] + w[i:], w[:i] + "q" + w[i+1:], w[:i] + "q" + w[i:], w[:i-1] + w[i:i+1] + w[i-1:i] + w[i+1:],
			} {
				if wrong == w {
					continue // two of the same letter have changed places
				}
				if got := n.of(wrong, terms.HashWord(wrong)); got != w && !oneKey(got, wrong) && !oneKey(wrong, got) {
					t.Errorf("%s is read as %q", wrong, got)
				}
			}
		}
	}
	for _, w := range []string{"", "qzxvq", "ignqqe", "instqqctions", "xkcd", "kubernetes", "trains", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		expect.Equal(t, n.of(w, terms.HashWord(w)), "", w, "is read as")
	}
	expect.Equal(t, n.of("IGNROE", terms.HashWord("IGNROE")), "ignore", "capitals are read as")
}

// Words whose lengths differ by more than one letter can have the same hash; comparing them
// does not run past the end of either.
func TestOneKeyIsOfWordsAsLong(t *testing.T) {
	for _, c := range []struct {
		long, short string
		want        bool
	}{
		{"ignore", "ignorexyz", false}, {"ign", "ignore", false}, {"ignoreabc", "ignore", false}, {"", "a", false}, {"", "", false}, {"a", "", true},
		{"ignore", "ignore", false}, {"ignore", "ignor", true}, {"ignore", "ignoer", true}, {"ignore", "ignora", true}, {"ignore", "ingora", false},
	} {
		expect.Equal(t, oneKey(c.long, c.short), c.want, c.long, c.short)
	}
}
