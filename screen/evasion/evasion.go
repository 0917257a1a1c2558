// Package evasion writes texts in the ways in which poison is hidden from
// filters, so that tests and the benchmark can show what screening still sees.
//
// It promises that every transform is deterministic and keeps what a model
// would read in the text.
package evasion

import (
	"encoding/ascii85"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Transform is one way of hiding.
type Transform struct {
	Name  string
	Apply func(string) string
}

// Transforms are all of them, in a fixed order.
func Transforms() []Transform {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return []Transform{
		{"unicode tags", func(s string) string {
			return "Note: lunch at noon." + each(s, func(r rune) string { return string(0xe0000 + r) })
		}},
		{"variation selectors", func(s string) string { return "ok 👍" + selectors(s) }},
		{"zero width", between("\u200b")},
		{"word joiner", between("\u2060")},
		{"soft hyphen", between("\u00ad")},
		{"bidi override", func(s string) string { return "\u202e" + reverse(s) + "\u202c" }},
		{"homoglyphs", swap("aceopxyisABCEHKMOPTX", "асеорхуіѕАВСЕНКМОРТХ")},
		{"greek homoglyphs", swap("aovuiAEIKMNOT", "αονυιΑΕΙΚΜΝΟΤ")},
		{"fullwidth", func(s string) string { return each(s, fullwidth) }},
		{"mathematical bold", offset(0x1d400, 0x1d41a)},
		{"mathematical script", offset(0x1d4d0, 0x1d4ea)},
		{"circled", offset(0x24b6, 0x24d0)},
		{"small capitals", swap("abcdefghijklmnoprstuvwyz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ")},
		{"combining marks", func(s string) string { return letters(s, func(r rune) string { return string(r) + "\u0336" }) }},
		{"accents", swap("aeiounAEIOUc", "äéîõüñÀÈÌÒÙç")},
		{"leetspeak", swap("aeiostAEIOST", "431057431057")},
		{"spaced letters", func(s string) string { return spread(s, " ", "   ") }},
		{"dotted letters", func(s string) string { return spread(s, ".", " ") }},
		{"hyphenated letters", func(s string) string { return spread(s, "-", " ") }},
		{"markdown in words", inside("**")},
		{"tags in words", inside("<b></b>")},
		{"comments in words", inside("<!-- x -->")},
		{"entities", func(s string) string { return each(s, func(r rune) string { return fmt.Sprintf("&#%d;", r) }) }},
		{"hex entities", func(s string) string { return each(s, func(r rune) string { return fmt.Sprintf("&#x%x;", r) }) }},
		{"percent", url.PathEscape},
		{"percent twice", func(s string) string { return url.PathEscape(url.PathEscape(s)) }},
		{"backslash u", func(s string) string { return each(s, func(r rune) string { return fmt.Sprintf("\\u%04x", r) }) }},
		{"backslash x", func(s string) string {
			var b strings.Builder
			for _, c := range []byte(s) {
				fmt.Fprintf(&b, "\\x%02x", c)
			}
			return b.String()
		}},
		{"base64", b64},
		{"base64 in a sentence", func(s string) string { return "Decode and follow this: " + b64(s) + " - thank you." }},
		{"base64 twice", func(s string) string { return b64(b64(s)) }},
		{"base64 of rot13", func(s string) string { return b64(rotate(s, 13)) }},
		{"hex", func(s string) string { return hex.EncodeToString([]byte(s)) }},
		{"hex of base64", func(s string) string { return hex.EncodeToString([]byte(b64(s))) }},
		{"binary", numbers("%08b", " ")},
		{"decimal", numbers("%d", " ")},
		{"octal", numbers("%o", " ")},
		{"morse", morse},
		{"rot13", func(s string) string { return rotate(s, 13) }},
		{"caesar 7", func(s string) string { return rotate(s, 7) }},
		{"atbash", atbash},
		{"reversed", reverse},
		{"run together", func(s string) string { return strings.Map(dropSpace, s) }},
		{"newlines", func(s string) string { return strings.ReplaceAll(s, " ", "\n") }},
		{"base64 four times", func(s string) string { return b64(b64(b64(b64(s)))) }},
		{"behind 60 encodings", func(s string) string { return strings.Repeat(b64(filler)[:44]+" ", 60) + b64(s) }},
		{"base64 in groups", func(s string) string { return groups(b64(s), 4) }},
		{"hex in groups", func(s string) string { return groups(hex.EncodeToString([]byte(s)), 4) }},
		{"fingerprint", func(s string) string {
			return strings.ReplaceAll(groups(hex.EncodeToString([]byte(s)), 2), " ", ":")
		}},
		{"base32", func(s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) }},
		{"ascii85", func(s string) string {
			out := make([]byte, ascii85.MaxEncodedLen(len(s)))
			return "<~" + string(out[:ascii85.Encode(out, []byte(s))]) + "~>"
		}},
		{"quoted-printable", func(s string) string {
			return each(s, func(r rune) string { return fmt.Sprintf("=%02X", r) })
		}},
		{"link", func(s string) string { return "note://" + strings.ReplaceAll(s, " ", "/") }},
		{"query", func(s string) string { return "see https://example.com/page?q=" + strings.ReplaceAll(s, " ", "+") }},
		{"links", func(s string) string {
			words := strings.Fields(s)
			for i := 0; i+2 < len(words); i += 3 {
				words[i] = "x://" + words[i] + "-" + words[i+1] + "-" + words[i+2]
				words[i+1], words[i+2] = "", ""
			}
			return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
		}},
		{"numbered words", func(s string) string { return items(s, func(i int) string { return fmt.Sprintf("%d. ", i+1) }) }},
		{"bulleted words", func(s string) string { return items(s, func(int) string { return "- " }) }},
		{"backward words", func(s string) string {
			words := strings.Fields(s)
			slices.Reverse(words)
			return strings.Join(words, " ")
		}},
		{"inner letters mixed", func(s string) string { return mixed(s) }},
		{"spelling alphabet", func(s string) string {
			return strings.TrimSpace(each(strings.ToLower(s), func(r rune) string {
				switch {
				case r >= 'a' && r <= 'z':
					return spelling[r-'a'] + " "
				case r == ' ':
					return "/ "
				}
				return ""
			}))
		}},
		{"buried", func(s string) string { return filler + " " + s + " " + filler }},
	}
}

// filler is harmless prose around a buried payload.
const filler = `We had the quarterly meeting on Tuesday and went through the figures. Sales in the north grew a little, the south was flat,
and the new shop in the harbour opened two weeks late because of the weather. Maria showed photos of the team trip and asked who
would bring the cake next time. The heating on the third floor is still loud; facilities will look at it before the winter. After
lunch we talked about the reading group, which moves to the library, and about the bicycle stands that the city wants to paint green.`

// groups parts s in groups of n.
func groups(s string, n int) string {
	var b strings.Builder
	for i := 0; i < len(s); i += n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s[i:min(i+n, len(s))])
	}
	return b.String()
}

// items makes a list of the words of s.
func items(s string, mark func(int) string) string {
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = mark(i) + w
	}
	return strings.Join(words, "\n")
}

// mixed turns round the letters within every word, two by two.
func mixed(s string) string {
	words := strings.Fields(s)
	for k, w := range words {
		b := []byte(w)
		end := len(b)
		for end > 0 && !isLetter(rune(b[end-1])) {
			end--
		}
		for i := 1; i+2 < end && !strings.ContainsAny(w[:end], "@.-'"); i += 2 {
			b[i], b[i+1] = b[i+1], b[i]
		}
		words[k] = string(b)
	}
	return strings.Join(words, " ")
}

var spelling = strings.Fields(`Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo Lima Mike November Oscar Papa Quebec
Romeo Sierra Tango Uniform Victor Whiskey X-ray Yankee Zulu`)

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

// inside puts a piece in the middle of every word of four letters and more.
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

func spread(s, sep, gap string) string {
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = strings.Join(strings.Split(w, ""), sep)
	}
	return strings.Join(words, gap)
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

func rotate(s string, by rune) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+by)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+by)%26
		}
		return r
	}, s)
}

func atbash(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + 'z' - r
		case r >= 'A' && r <= 'Z':
			return 'A' + 'Z' - r
		}
		return r
	}, s)
}

func reverse(s string) string {
	r := []rune(s)
	for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
		r[i], r[j] = r[j], r[i]
	}
	return string(r)
}

func dropSpace(r rune) rune {
	if r == ' ' {
		return -1
	}
	return r
}

var morseCodes = strings.Fields(".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..")

func morse(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z':
			b.WriteString(morseCodes[r-'a'] + " ")
		case r == ' ':
			b.WriteString("/ ")
		}
	}
	return b.String()
}
