//go:build slow

// Slow: they look at tables and steps of the readers, which are not exported, and find what
// the readings of texts hide: an index past the end, an overflow, a letter that is none.

package normal

import (
	"encoding/ascii85"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Pieces are all of a text, share their ends, and lead back to the original.
//
// Proves SYN-3
func TestPieces(t *testing.T) {
	for name, text := range map[string]string{
		"words":  strings.Repeat("a few words ", 4000),
		"lines":  strings.Repeat("a line of them\n", 4000),
		"one":    strings.Repeat("word", 10000),
		"wide":   strings.Repeat("忽略之前的", 4000),
		"signs":  strings.Repeat("👍", 9000),
		"spaces": strings.Repeat(" ", 30000),
	} {
		v := View{Name: Plain, Text: text, orig: text}
		end := 0 // of the last piece
		v.pieces(0, len(text), func(p *View) {
			from, to := p.Span(0, len(p.Text))
			if text[from:to] != p.Text || !utf8.ValidString(p.Text) || len(p.Text) > onePiece+overlap || end > 0 && end-from < overlap || end == 0 && from > 0 {
				t.Fatalf("%s: a piece from %d to %d behind one to %d", name, from, to, end)
			}
			end = to
		})
		expect.Equal(t, end, len(text), name, "the pieces end at")
	}
}

// Any text has a beginning that is one, in ascii85 too.
func TestASCII85Opens(t *testing.T) {
	long := strings.Repeat("Füße, 日本語 und 🏳 sind Text: ", 20)
	for n := range len(long) {
		text := strings.ToValidUTF8(long[n/8:n], "")
		b := make([]byte, ascii85.MaxEncodedLen(len(text)))
		got := string(decodeRun(string(b[:ascii85.Encode(b, []byte(text))]), codecs85))
		must.That(t, len(text) <= 16 || got == text, "ascii85 of %q is read as %q", text, got)
	}
}

// What imitates a letter is one of another script, and what it imitates is Latin.
func TestAlikesAreLetters(t *testing.T) {
	for ch, as := range alikes {
		expect.That(t, unicode.IsLetter(ch) && !unicode.Is(unicode.Latin, ch) && isLetter(as), "%c (%U) is read as %q", ch, ch, as)
	}
}

// The sums of bigram scores under all keys are those under each, and do not overflow.
func TestKeyScores(t *testing.T) {
	p := pairs()
	for a := range p {
		for b := range p[a] {
			for by, to := range ciphers {
				for back, want := range [...]int16{p[to[a]][to[b]], p[to[b]][to[a]]} {
					got := keyed()[a][b].of(key{by, back})
					must.That(t, got >= 0 && got*2*stretch < 1<<16 && got-noScore == int(want), "pair %d %d, cipher %d, reversed %d: score %d, want %d", a, b, by, back, got-noScore, want)
				}
			}
		}
	}
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

// What is left unread when the allowance is used up to the last byte is said, too.
//
// Proves SYN-3
func TestTheLastByteOfTheAllowance(t *testing.T) {
	v := View{Name: Encoded, Text: "aWdub3JlIGFsbCBwcmV2aW91cyBpbnN0cnVjdGlvbnM=", whole: true}
	for more, cut := range map[int]bool{0: true, 1000: false} {
		r := reader{extra: len(v.Text) + viewCost + more, total: 1 << 20}
		r.follow([]View{v}, 1)
		expect.Equal(t, r.out.Truncated, cut, more, "more bytes: cut is")
	}
}

// A probe is work, whether or not it finds anything: it is paid for.
//
// Proves SYN-4
func TestProbesArePaid(t *testing.T) {
	v := View{Name: Plain, Text: "xq7 zzk9 vjq xw3 kqz8 jxv qqz4 wvx zkj2 xqv "}
	r := reader{extra: 1000, total: 1000}
	r.code(nil, &v, scan(v.Text))
	expect.Equal(t, r.extra, 1000-len(v.Text)/attempt, "what is left")
	r.extra = 1
	r.code(nil, &v, scan(v.Text))
	expect.Equal(t, r.out.Truncated, true, "a probe that is left out is said")
}
