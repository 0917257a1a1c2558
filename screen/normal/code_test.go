package normal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/evasion"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/screen/normal"
)

// A code has backslashes, percent signs and words by chance. What they resolve to is no
// language, so it is neither read in every way nor tried under ciphers, and the whole of a
// long code is read.
//
// Proves SYN-3
func TestCodesAreReadToTheirEnd(t *testing.T) {
	prose := strings.Repeat(strings.Join(evasion.Benign(), " ")+" ", 16)[:8<<10]
	for _, c := range []struct{ inner, outer string }{
		{"rot47", "reversed"}, {"reversed", "rot47"}, {"hex in capitals", "rot47"}, {"base85", "without vowels"}, {"base64 in reverse", "leetspeak"},
		{"base64", "ascii85 without marks"},
	} {
		text := evasion.Apply(c.outer, evasion.Apply(c.inner, prose))[:8<<10]
		r := normal.Read(text)
		expect.Equal(t, r.Truncated, false, c.inner, "then", c.outer, "in", len(r.Views), "readings, cut is")
	}
}

// A text that is hidden in another way, too, is read where only some of its letters are escaped.
//
// Proves SYN-3
func TestFewEscapesHideNothing(t *testing.T) {
	for _, name := range []string{"every letter twice", "base64 in reverse"} {
		for _, escape := range []string{"%%%02x", `\u%04x`, "&#%d;"} {
			poison, text := evasion.Poisons()[1], ""
			for i, r := range evasion.Apply(name, poison) {
				if text += string(r); i%7 == 0 {
					text = text[:len(text)-1] + fmt.Sprintf(escape, r)
				}
			}
			found := slices.ContainsFunc(normal.Read(text).Views, func(v normal.View) bool { return v.Text == poison })
			expect.Equal(t, found, true, name, "with", escape)
		}
	}
}

// Quoted-printable that was enciphered is read: its signs are escapes, too.
//
// Proves SYN-3
func TestQuotedPrintableUnderCiphers(t *testing.T) {
	for _, cipher := range []string{"rot47", "atbash"} {
		for _, poison := range evasion.Poisons() {
			r := normal.Read(evasion.Apply(cipher, evasion.Apply("quoted-printable", poison)))
			expect.Equal(t, slices.ContainsFunc(r.Views, func(v normal.View) bool { return v.Text == poison }), true, cipher, poison)
		}
	}
}
