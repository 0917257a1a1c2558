package jsondoc

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// DefaultRequestDepth bounds the nesting of requests. It is far below
// DefaultMaxDepth: a backend wraps stored content into lists, results and metadata,
// and what was accepted must be readable in every answer.
const DefaultRequestDepth = 32

// ParseRequest parses a client's body. In addition to what Parse refuses, it refuses values
// that a backend in Python would store differently or could not return: numbers that are not
// storable, and the character NUL, which databases cannot store. maxDepth bounds the nesting; 0 means DefaultRequestDepth. Errors are
// *memproxy.Flaw.
func ParseRequest(src []byte, maxDepth int) (*Doc, error) {
	return parser{max: cmp.Or(max(maxDepth, 0), DefaultRequestDepth), strict: true}.parse(src)
}

// maxNumber bounds the length of a number. Exactly written doubles have up to 24
// characters.
const maxNumber = 128

// maxMagnitude bounds numbers. Databases write 1e300 as an integer of 301 digits,
// which later readers cannot parse.
const maxMagnitude = 1 << 63

// minNormal is the smallest positive double of full precision.
const minNormal = 0x1p-1022

// storable reports whether all readers parse the text of a JSON number as the same
// number and can write it again.
func storable(text string) bool {
	if len(text) > maxNumber {
		return false
	}
	if !strings.ContainsAny(text, ".eE") {
		_, err := strconv.ParseInt(text, 10, 64)
		return err == nil && text != "-0"
	}
	f, err := strconv.ParseFloat(text, 64)
	switch abs := math.Abs(f); {
	case err != nil, abs >= maxMagnitude:
		return false
	case abs >= minNormal:
		return true
	}
	// Zero is exact; any other text was rounded to zero or to a denormal.
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	return !strings.ContainsAny(mantissa, "123456789")
}

// Fold returns a name in lower case, in Unicode compatibility form (NFKC) and without
// invisible characters, to compare spellings of a name. "USER_ID", "ｕser_id" and "uſer_id"
// fold to "user_id".
func Fold(name string) string {
	plain := true
	for i := 0; i < len(name) && plain; i++ {
		c := name[i]
		plain = c > ' ' && c < 0x7f && (c < 'A' || c > 'Z')
	}
	if plain {
		return name
	}
	folded := strings.ToLower(norm.NFKC.String(name))
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Mn, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, folded))
}

// Squash is Fold without word separators: "userId", "user-id" and "user_id" are
// equal.
func Squash(name string) string {
	var buf [64]byte
	if b := AppendSquashed(buf[:0], name); string(b) != name { // allocates only if it differs
		return string(b)
	}
	return name
}

// AppendSquashed appends a squashed name.
func AppendSquashed(to []byte, name string) []byte {
	plain := len(to)
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= utf8.RuneSelf || c <= ' ':
			return append(to[:plain], separators.Replace(Fold(name))...)
		case c == '_' || c == '-' || c == '.':
			continue
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}

var separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// sameValue reports whether two values are equal. Numbers count as different, because their
// source is not at hand. Objects count as different, because a stamp is written into only
// one of them.
func sameValue(a, b *Value) bool {
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case String:
		return a.text == b.text
	case Bool:
		return a.End-a.Start == b.End-b.Start // true is shorter than false
	case Null:
		return true
	case Array:
		return slices.EqualFunc(a.Elems, b.Elems, sameValue)
	}
	return false
}

// Alias returns a member of an object whose name is another spelling of a known name that
// is also present, or false. Such a pair is ambiguous, because readers with aliases accept
// either member. Two spellings with the same value are harmless, and clients send them.
func Alias(v *Value, known func(string) bool) (Member, bool) {
	real := make([]Member, 0, 32) // with squashed names; there are only so many known ones
	for _, m := range v.Members {
		if known(m.Name) {
			real = append(real, Member{Name: Squash(m.Name), Value: m.Value})
		}
	}
	for _, m := range v.Members {
		if len(real) == 0 || known(m.Name) {
			continue
		}
		name := Squash(m.Name)
		if slices.ContainsFunc(real, func(of Member) bool { return of.Name == name && !sameValue(m.Value, of.Value) }) {
			return m, true
		}
	}
	return Member{}, false
}
