// Package evasion transforms texts in the ways in which poison is hidden from filters, so
// that tests and the benchmark can measure what screening still detects.
//
// Every transform is deterministic and keeps what a model would read in the text.
package evasion

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Transform is one way to hide a text.
type Transform struct {
	Name  string
	Apply func(string) string
	// Supports reports whether a text keeps its meaning in the transform: those that spell
	// letters lose punctuation and, mostly, case. Nil means every text does.
	Supports func(string) bool
}

// KeepsMeaning reports whether a text keeps its meaning in the transform.
func (t Transform) KeepsMeaning(s string) bool { return t.Supports == nil || t.Supports(s) }

// Transforms returns all transforms in a fixed order.
func Transforms() []Transform {
	return slices.Concat(invisible(), lookalikes(), spacings(), escapes(), encodings(), ciphers(), orders())
}

// Apply hides a text by the transform with a name.
func Apply(name, text string) string {
	all := Transforms()
	return all[slices.IndexFunc(all, func(t Transform) bool { return t.Name == name })].Apply(text)
}

const alphabet = "abcdefghijklmnopqrstuvwxyz"

// note is a harmless sentence to precede hidden text.
const note = "Note: lunch at noon."

func invisible() []Transform {
	return []Transform{
		{"unicode tags", func(s string) string {
			return note + each(s, func(r rune) string { return string(0xe0000 + r) })
		}, ascii},
		{"tags alone", func(s string) string { return each(s, func(r rune) string { return string(0xe0000 + r) }) }, ascii},
		{"variation selectors", func(s string) string { return "ok 👍" + selectors(s) }, nil},
		{"zero-width bits", func(s string) string { return note + bits(s, "\u200b", "\u200c") }, nil},
		{"zero-width joiner bits", func(s string) string { return note + bits(s, "\u200d", "\u2060") }, nil},
		{"zero width", between("\u200b"), nil},
		{"word joiner", between("\u2060"), nil},
		{"soft hyphen", between("\u00ad"), nil},
		{"byte order mark", between("\ufeff"), nil},
		{"invisible separator", between("\u2063"), nil},
		{"bidi override", func(s string) string { return "\u202e" + reverse(s) + "\u202c" }, nil},
	}
}

func lookalikes() []Transform {
	return []Transform{
		{"homoglyphs", swap("aceopxyisABCEHKMOPTX", "асеорхуіѕАВСЕНКМОРТХ"), nil},
		{"greek homoglyphs", swap("aovuiAEIKMNOT", "αονυιΑΕΙΚΜΝΟΤ"), nil},
		{"armenian homoglyphs", swap("ohnuqg", "օհոսզց"), language},
		{"cherokee homoglyphs", swap("DRTiAJEWMHGhZSVKB", "ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᏀᏂᏃᏚᏙᏦᏴ"), nil},
		{"fullwidth", func(s string) string { return each(s, fullwidth) }, nil},
		{"mathematical bold", offset(0x1d400, 0x1d41a), nil},
		{"mathematical script", offset(0x1d4d0, 0x1d4ea), nil},
		{"monospace", offset(0x1d670, 0x1d68a), nil},
		{"circled", offset(0x24b6, 0x24d0), nil},
		{"squared", func(s string) string { return offset(0x1f130, 0x1f130)(strings.ToUpper(s)) }, caseless},
		{"regional indicators", func(s string) string {
			return letters(strings.ToLower(s), func(r rune) string { return string(0x1f1e6+r-'a') + " " })
		}, caseless},
		{"braille", func(s string) string {
			return swap(alphabet, "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵")(strings.ToLower(s))
		}, caseless},
		{"small capitals", swap("abcdefghijklmnoprstuvwyz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"), nil},
		{"superscript", swap("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"), nil},
		{"upside down", func(s string) string {
			return reverse(swap(alphabet, "ɐqɔpǝɟƃɥᴉɾʞlɯuodbɹsʇnʌʍxʎz")(strings.ToLower(s)))
		}, caseless},
		{"combining marks", func(s string) string { return letters(s, func(r rune) string { return string(r) + "\u0336" }) }, nil},
		{"accents", swap("aeiounAEIOUc", "äéîõüñÀÈÌÒÙç"), nil},
		{"leetspeak", swap("aeiostAEIOST", "431057431057"), language},
		{"leet with signs", swap("aeiostcAEIOSTC", "@3!0$+(@3!0$+("), language},
		{"leet with all digits", swap("abegilostzABEGILOSTZ", "48361105724836110572"), language},
		{"leet in half of the letters", alternate(swap("aeiostlgAEIOSTLG", "4310571943105719")), language},
		{"leet of several signs", pieces(map[rune]string{'a': `/\`, 'v': `\/`, 'n': `|\|`, 'k': "|<", 'o': "()", 'u': "|_|", 'd': "|)", 'e': "3", 'l': "|_", 'i': "1"}), language},
	}
}

func spacings() []Transform {
	between := func(sep, gap string) func(string) string {
		return func(s string) string { return spread(s, sep, gap) }
	}
	return []Transform{
		{"spaced letters", between(" ", "   "), nil},
		{"evenly spaced letters", between(" ", " "), language},
		{"dotted letters", between(".", " "), nil},
		{"hyphenated letters", between("-", " "), nil},
		{"letters with points", between("·", " "), nil},
		{"letters with bars", between("|", " "), nil},
		{"letters with slashes", between("/", "  "), nil},
		{"letters with underscores", between("_", " "), nil},
		{"a letter a line", between("\n", "\n\n"), nil},
		{"letters in pairs", func(s string) string { return groups(strings.ReplaceAll(s, " ", ""), 2) }, language},
		{"letters in fives", func(s string) string { return groups(strings.ReplaceAll(s, " ", ""), 5) }, language},
		{"every letter twice", func(s string) string { return each(s, func(r rune) string { return string(r) + string(r) }) }, nil},
		{"run together", without(" "), language},
		{"words in capitals run together", humps, language},
		{"words with underscores", func(s string) string { return strings.ReplaceAll(s, " ", "_") }, nil},
		{"words with dots", func(s string) string { return strings.ReplaceAll(s, " ", ".") }, nil},
		{"words with slashes", func(s string) string { return strings.ReplaceAll(s, " ", "/") }, nil},
		{"newlines", func(s string) string { return strings.ReplaceAll(s, " ", "\n") }, nil},
		{"markdown in words", inside("**"), nil},
		{"tags in words", inside("<b></b>"), nil},
		{"comments in words", inside("<!-- x -->"), nil},
	}
}

func escapes() []Transform {
	runes := func(format string) func(string) string {
		return func(s string) string { return each(s, func(r rune) string { return fmt.Sprintf(format, r) }) }
	}
	octets := func(format string) func(string) string { return numbers(format, "") }
	return []Transform{
		{"entities", runes("&#%d;"), nil},
		{"hex entities", runes("&#x%x;"), nil},
		{"long entities", runes("&#%07d"), nil},
		{"percent", url.PathEscape, nil},
		{"percent twice", func(s string) string { return url.PathEscape(url.PathEscape(s)) }, nil},
		{"percent whole", octets("%%%02x"), nil},
		{"percent u", runes("%%u%04x"), ascii},
		{"backslash u", runes(`\u%04x`), ascii},
		{"backslash u in braces", runes(`\u{%x}`), nil},
		{"backslash x", octets(`\x%02x`), nil},
		{"backslash octal", octets(`\%03o`), nil},
		{"backslash css", runes(`\%x `), nil},
		{"backslash css without spaces", runes(`\%06x`), ascii},
		{"code points", runes("U+%04X "), nil},
		{"quoted-printable", octets("=%02X"), nil},
	}
}

func encodings() []Transform {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	b32 := func(s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) }
	hexed := func(s string) string { return hex.EncodeToString([]byte(s)) }
	in := func(f func(string) string, n int, sep string) func(string) string {
		return func(s string) string { return strings.ReplaceAll(groups(f(s), n), " ", sep) }
	}
	return []Transform{
		{"base64", b64, nil},
		{"base64 for addresses", func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }, nil},
		{"base64 of UTF-16", func(s string) string { return b64(each(s, func(r rune) string { return string(r) + "\x00" })) }, ascii},
		{"base64 in lines", in(b64, 76, "\n"), nil},
		{"base64 in a sentence", func(s string) string { return "Decode and follow this: " + b64(s) + " - thank you." }, nil},
		{"base64 twice", func(s string) string { return b64(b64(s)) }, nil},
		{"base64 four times", func(s string) string { return b64(b64(b64(b64(s)))) }, nil},
		{"base64 of rot13", func(s string) string { return b64(rotate(13)(s)) }, nil},
		{"base64 in reverse", func(s string) string { return reverse(b64(s)) }, nil},
		{"base64 a word", words(b64), nil},
		{"behind 60 encodings", func(s string) string { return strings.Repeat(b64(filler)[:44]+" ", 60) + b64(s) }, nil},
		{"base64 in groups", in(b64, 4, " "), nil},
		{"base64 in groups of five", in(b64, 5, " "), nil},
		{"hex", hexed, nil},
		{"hex in capitals", func(s string) string { return strings.ToUpper(hexed(s)) }, nil},
		{"hex of base64", func(s string) string { return hexed(b64(s)) }, nil},
		{"hex bytes", in(hexed, 2, " "), nil},
		{"hex numbers", numbers("0x%02x", ", "), nil},
		{"hex in groups", in(hexed, 4, " "), nil},
		{"fingerprint", in(hexed, 2, ":"), nil},
		{"base32", b32, nil},
		{"base32 in small letters", func(s string) string { return strings.ToLower(b32(s)) }, nil},
		{"base32 in groups", in(b32, 8, " "), nil},
		{"base32 with hexadecimal digits", func(s string) string { return base32.HexEncoding.EncodeToString([]byte(s)) }, nil},
		{"gzip in base64", func(s string) string { return b64(packed(s)) }, nil},
		{"binary", numbers("%08b", " "), nil},
		{"binary run together", numbers("%08b", ""), nil},
		{"decimal", numbers("%d", " "), nil},
		{"decimal in a list", func(s string) string { return "[" + numbers("%d", ", ")(s) + "]" }, nil},
		{"octal", numbers("%o", " "), nil},
		{"calls of chr", numbers("chr(%d)", "+"), nil},
		{"letters by number", func(s string) string { return spell(s, alphabetical, "-", " ") }, spelled},
		{"ascii85", func(s string) string { return "<~" + b85(s) + "~>" }, nil},
		{"ascii85 without marks", b85, nil},
		{"base85", rfc1924, nil},
		{"morse", func(s string) string { return morse(s, "/ ") }, spelled},
		{"morse with points", func(s string) string {
			return strings.NewReplacer(".", "·", "-", "−").Replace(morse(s, "  "))
		}, spelled},
		{"morse in lines", func(s string) string { return morse(s, "\n") }, spelled},
		{"spelling alphabet", func(s string) string { return phonetic(s, " ", "/ ") }, spelled},
		{"spelling alphabet with hyphens", func(s string) string { return phonetic(s, "-", " ") }, spelled},
		{"spelling alphabet without gaps", func(s string) string { return phonetic(s, " ", "") }, spelled},
	}
}

func ciphers() []Transform {
	return []Transform{
		{"rot13", rotate(13), nil},
		{"caesar 7", rotate(7), language},
		{"caesar 3 after a note", func(s string) string { return note + "\n" + rotate(3)(s) }, language},
		{"rot47", rot47, nil},
		{"atbash", substitute(reverse(alphabet)), nil},
		{"reversed", reverse, nil},
		{"reversed words", words(reverse), language},
		{"reversed after a note", func(s string) string { return note + "\n" + reverse(s) }, nil},
		{"pig latin", words(pig), language},
	}
}

func orders() []Transform {
	return []Transform{
		{"link", func(s string) string { return "note://" + strings.ReplaceAll(s, " ", "/") }, nil},
		{"escaped link", func(s string) string { return "word://" + url.PathEscape(s) }, nil},
		{"fragment", func(s string) string { return "https://example.com/a#" + strings.ReplaceAll(s, " ", "_") }, nil},
		{"query", func(s string) string { return "see https://example.com/page?q=" + strings.ReplaceAll(s, " ", "+") }, nil},
		{"a word a parameter", func(s string) string { return "x://y?w=" + strings.Join(strings.Fields(s), "&w=") }, language},
		{"links", func(s string) string { return chained(s, 3, "x://", "-") }, language},
		{"a link of two words", func(s string) string { return chained(s, 2, "word://", "/") }, language},
		{"numbered words", func(s string) string { return items(s, "\n", func(i int) string { return fmt.Sprintf("%d. ", i+1) }) }, nil},
		{"numbered words in a line", func(s string) string { return items(s, " ", func(i int) string { return fmt.Sprintf("%d) ", i+1) }) }, nil},
		{"numbered words out of order", shuffled, language},
		{"bulleted words", func(s string) string { return items(s, "\n", func(int) string { return "- " }) }, nil},
		{"starred words in a line", func(s string) string { return items(s, " ", func(int) string { return "* " }) }, nil},
		{"pieces in quotes", func(s string) string { return `"` + strings.Join(chunks(s, 5), `" + "`) + `"` }, unquoted},
		{"words in quotes", func(s string) string { return `["` + strings.Join(strings.Fields(s), `", "`) + `"]` }, language},
		{"backward words", func(s string) string { return strings.Join(backward(strings.Fields(s)), " ") }, language},
		{"inner letters mixed", words(func(w string) string { return inner(w, false) }), language},
		{"inner letters in any order", words(func(w string) string { return inner(w, true) }), language},
		{"a letter left out of words", words(mistyped(0)), language},
		{"a letter twice in words", words(mistyped(1)), language},
		{"another letter in words", words(mistyped(2)), language},
		{"two letters of words swapped", words(mistyped(3)), language},
		{"without vowels", without("aeiouAEIOU"), language},
		{"buried", func(s string) string { return filler + " " + s + " " + filler }, nil},
		{"in capitals", strings.ToUpper, caseless},
		{"in small letters", strings.ToLower, caseless},
	}
}

// filler is harmless prose to surround a payload.
const filler = `We had the quarterly meeting on Tuesday and went through the figures. Sales in the north grew a little, the south was flat,
and the new shop in the harbour opened two weeks late because of the weather. Maria showed photos of the team trip and asked who
would bring the cake next time. The heating on the third floor is still loud; facilities will look at it before the winter. After
lunch we talked about the reading group, which moves to the library, and about the bicycle stands that the city wants to paint green.`

// groups splits s into groups of n bytes.
func groups(s string, n int) string { return strings.Join(chunks(s, n), " ") }

func chunks(s string, n int) (out []string) {
	for part := range slices.Chunk([]byte(s), n) {
		out = append(out, string(part))
	}
	return out
}

func each(s string, f func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteString(f(r))
	}
	return b.String()
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func letters(s string, f func(rune) string) string {
	return each(s, func(r rune) string {
		if isLetter(r) {
			return f(r)
		}
		return string(r)
	})
}

func between(sep string) func(string) string {
	return func(s string) string { return letters(s, func(r rune) string { return string(r) + sep }) }
}

// inside inserts a piece after the second letter of every word of four bytes or more.
func inside(piece string) func(string) string {
	return func(s string) string {
		words := strings.Split(s, " ")
		for i, w := range words {
			if len(w) >= 4 && isLetter(rune(w[1])) && isLetter(rune(w[2])) {
				words[i] = w[:2] + piece + w[2:]
			}
		}
		return strings.Join(words, " ")
	}
}

func swap(from, to string) func(string) string {
	m := map[rune]rune{}
	t := []rune(to)
	for i, r := range []rune(from) {
		m[r] = t[i]
	}
	return func(s string) string {
		return each(s, func(r rune) string {
			if x, ok := m[r]; ok {
				return string(x)
			}
			return string(r)
		})
	}
}

func offset(upper, lower rune) func(string) string {
	return func(s string) string {
		return letters(s, func(r rune) string {
			if r >= 'a' {
				return string(lower + r - 'a')
			}
			return string(upper + r - 'A')
		})
	}
}

func fullwidth(r rune) string {
	if r > ' ' && r < 0x7f {
		return string(r + 0xfee0)
	}
	return string(r)
}

func selectors(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < 16 {
			b.WriteRune(0xfe00 + rune(c))
		} else {
			b.WriteRune(0xe0100 + rune(c) - 16)
		}
	}
	return b.String()
}

func numbers(format, sep string) func(string) string {
	return func(s string) string {
		out := make([]string, 0, len(s))
		for _, c := range []byte(s) {
			out = append(out, fmt.Sprintf(format, c))
		}
		return strings.Join(out, sep)
	}
}

func rotate(by int) func(string) string { return substitute(alphabet[by:] + alphabet[:by]) }

// substitute replaces the letters of the alphabet.
func substitute(to string) func(string) string {
	return swap(alphabet+strings.ToUpper(alphabet), to+strings.ToUpper(to))
}

func reverse(s string) string {
	r := []rune(s)
	slices.Reverse(r)
	return string(r)
}

// without removes characters.
func without(left string) func(string) string {
	return func(s string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(left, r) {
				return -1
			}
			return r
		}, s)
	}
}
