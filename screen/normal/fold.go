package normal

import (
	_ "embed"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/memproxy/memproxy/screen/rulefile"
)

// odd counts what fold found that is rarely written in good faith.
type odd struct {
	invisible int // invisible characters that can carry a message
	alike     int // words with homoglyphs
	own       int // words in another script without homoglyphs
	turned    int // upside-down letters
}

// minTurned is the number of upside-down letters from which a text is read as upside
// down.
const minTurned = 4

// read appends the readings derived from what is odd in v, which b folds.
func (o odd) read(found []View, v *View, b *builder) []View {
	if o.invisible > 0 {
		found = hidden(found, v)
	}
	if o.turned >= minTurned { // ASCII letters that are upside-down forms of each other
		t := builder{text: []byte(heads.Replace(string(b.text))), at: slices.Clone(b.at)}
		plain := mapped(Plain, &t, v)
		found = append(found, reversed(&plain))
	}
	return found
}

// heads maps ASCII letters to those that they are upside down.
var heads = strings.NewReplacer("n", "u", "u", "n", "b", "q", "q", "b", "d", "p", "p", "d")

// fold returns the plain reading of a text that is not clean ASCII. Invisible characters
// are removed; compatibility forms (fullwidth, mathematical, circled) become plain
// (NFKD); Latin letters lose diacritics; letters beyond ASCII become lower case;
// homoglyphs become Latin letters, but only in words of mixed scripts, or in words of
// homoglyphs only in a Latin text.
func fold(s string) (*builder, odd) {
	b, o := foldIn(s, mostlyLatin(s))
	if o.alike > o.own {
		return foldIn(s, true)
	}
	return b, o
}

// foldIn is fold; latin says whether a word of homoglyphs only is an imitation.
func foldIn(s string, latin bool) (*builder, odd) {
	var o odd
	b := newBuilder(len(s) + 16)
	word := false // within a word
	var kinds uint8
	var likes []like // the homoglyphs of the current word
	flush := func() {
		if len(likes) > 0 && (kinds&kindLatin != 0 || kinds&kindOwn == 0 && latin) {
			skeleton(b, likes)
			o.alike++
		} else if kinds&kindOwn != 0 {
			o.own++
		}
		word, kinds, likes = false, 0, likes[:0]
	}
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if isLetter(c) {
				word = true
				kinds |= kindLatin
			} else if !isDigit(c) || !word {
				flush()
			}
			if c >= ' ' || c == '\n' || c == '\t' || c == '\r' {
				b.byte(c, int32(i))
			}
			i++
			continue
		}
		ch, n := utf8.DecodeRuneInString(s[i:])
		at := int32(i)
		i += n
		if ch == utf8.RuneError && n == 1 {
			continue
		}
		if invisible(ch) {
			if carrier(ch) {
				o.invisible++
			}
			continue
		}
		if !unicode.IsLetter(ch) && !unicode.IsMark(ch) {
			if p := plainSymbols[ch]; p != "" {
				if b.string(p, at); isLetter(p[0]) {
					word = true
					kinds |= kindLatin
				} else {
					flush()
				}
				continue
			}
		}
		if unicode.Is(unicode.Mn, ch) && len(b.text) > 0 && b.text[len(b.text)-1] < utf8.RuneSelf {
			continue // a diacritic of a Latin letter
		}
		if unicode.IsLetter(ch) {
			word = true
			switch {
			case ch >= 0x4e00 && ch <= 0x9fff, ch >= 0x3040 && ch <= 0x30ff, ch >= 0xac00 && ch <= 0xd7a3:
				b.rune(ch, at)
				continue
			case unicode.Is(unicode.Latin, ch) || ch >= 0x1d400:
				kinds |= kindLatin
				if strings.ContainsRune("ɐɔǝɟɥᴉɯɹʇʌʍʎ", ch) {
					o.turned++
				}
				unmarked(b, ch, at)
				continue
			}
			if p := alikes[ch]; p != 0 {
				if unicode.IsUpper(ch) {
					p &^= 'a' - 'A'
				}
				likes = append(likes, like{len(b.text), p})
			} else {
				kinds |= kindOwn
			}
			b.rune(unicode.ToLower(ch), at)
			continue
		}
		if !unicode.IsMark(ch) {
			flush()
		}
		unmarked(b, ch, at)
	}
	flush()
	return b, o
}

// mostlyLatin reports whether a text has more ASCII letters than others, so that a word
// in another script may be an imitation.
func mostlyLatin(s string) bool {
	ascii, other := 0, 0
	for i := 0; i < len(s); i++ {
		if isLetter(s[i]) {
			ascii++
		} else if s[i] >= 0xc0 {
			other++
		}
	}
	return ascii > other
}

const (
	kindLatin uint8 = 1 << iota // has Latin letters
	kindOwn                     // has letters that are no homoglyph of a Latin one
)

// like is a homoglyph in a builder, and its ASCII letter.
type like struct {
	pos int
	as  byte
}

// unmarked writes the base letters of a compatibility character or a letter with
// diacritics.
func unmarked(b *builder, ch rune, at int32) {
	if p, ok := smallForms[ch]; ok {
		b.string(p, at)
		return
	}
	var buf [utf8.UTFMax]byte
	n := utf8.EncodeRune(buf[:], ch)
	d := norm.NFKD.Properties(buf[:n]).Decomposition()
	if d == nil {
		b.rune(unicode.ToLower(ch), at)
		return
	}
	for len(d) > 0 {
		c, n := utf8.DecodeRune(d)
		d = d[n:]
		switch {
		case unicode.Is(unicode.Mn, c):
			if len(b.text) > 0 && b.text[len(b.text)-1] >= utf8.RuneSelf {
				b.rune(c, at)
			}
		case c < utf8.RuneSelf:
			b.byte(byte(c), at)
		default:
			unmarked(b, c, at)
		}
	}
}

// skeleton replaces homoglyphs with their ASCII letters.
func skeleton(b *builder, likes []like) {
	to := likes[0].pos
	next := 0
	for from := to; from < len(b.text); {
		_, n := utf8.DecodeRune(b.text[from:])
		if next < len(likes) && likes[next].pos == from {
			b.text[to], b.at[to] = likes[next].as, b.at[from]
			to++
			next++
		} else {
			to += copy(b.text[to:], b.text[from:from+n])
			copy(b.at[to-n:], b.at[from:from+n])
		}
		from += n
	}
	b.text, b.at = b.text[:to], b.at[:to]
}

// invisible reports whether a character has no width when the text is displayed.
func invisible(ch rune) bool {
	switch {
	case ch >= 0x200b && ch <= 0x200f, ch >= 0x202a && ch <= 0x202e, ch >= 0x2060 && ch <= 0x206f,
		ch >= 0xfe00 && ch <= 0xfe0f, ch >= 0xe0000 && ch <= 0xe0fff, ch >= 0x80 && ch < 0xa0,
		ch >= 0x180b && ch <= 0x180e, ch >= 0xfff0 && ch <= 0xfffb:
		return true
	}
	switch ch {
	case 0xfeff, 0x00ad, 0x034f, 0x061c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x3164, 0xffa0, 0x2820: // U+2820 announces a capital letter in Braille
		return true
	}
	return false
}

// carrier reports whether an invisible character can carry a message.
func carrier(ch rune) bool {
	return ch >= 0xe0000 && ch <= 0xe0fff || ch >= 0xfe00 && ch <= 0xfe0e || ch >= 0x200b && ch <= 0x200d || ch == 0x2060 || ch == 0xfeff || ch >= 0x2061 && ch <= 0x2064
}

// plainSymbols maps symbols to ASCII: parenthesised, circled and squared letters,
// regional indicators and Braille, and variants of punctuation.
var plainSymbols = func() map[rune]string {
	all := map[rune]string{}
	for plain, forms := range map[string]string{
		"'": "\u2018\u2019\u02bc\u2032", "\"": "\u201c\u201d", "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "...": "\u2026", "/": "\u2215\u2044",
		" ":  "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\u2800",
		"\n": "\u2028\u2029\u0085",
	} {
		for _, ch := range forms {
			all[ch] = plain
		}
	}
	for i, ch := range []rune(braille) {
		all[ch] = string('a' + rune(i))
	}
	for from, first := range map[rune]rune{0x249c: 'a', 0x24b6: 'A', 0x24d0: 'a', 0x1f130: 'a', 0x1f150: 'a', 0x1f170: 'a', 0x1f1e6: 'a'} {
		for i := range rune(26) {
			all[from+i] = string(first + i)
		}
	}
	return all
}()

const braille = "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵" // the letters from a to z

//go:embed letters.txt
var lookalikes string

// alikes maps homoglyphs to ASCII letters, and smallForms Latin letters without a
// decomposition.
var alikes, smallForms = func() (map[rune]byte, map[rune]string) {
	alike, form := map[rune]byte{}, map[rune]string{}
	for _, line := range rulefile.Lines(lookalikes) {
		f := strings.Fields(line)
		for _, ch := range f[2] {
			if f[0] == "alike" {
				alike[ch] = f[1][0]
			} else {
				form[ch] = f[1]
			}
		}
	}
	return alike, form
}()
