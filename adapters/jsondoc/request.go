package jsondoc

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// DefaultRequestDepth bounds the nesting of requests. It is far below
// DefaultMaxDepth: a backend wraps what it stored into lists, results and
// metadata, and what was accepted must be readable in whatever it comes back.
const DefaultRequestDepth = 32

// ParseRequest reads a body that a client sends. Beyond what Parse refuses it
// refuses what a backend in Python would store as something else, or could not
// give back: numbers that are no finite double or whole number of 64 bits, and
// the character NUL, which databases do not hold. maxDepth bounds the nesting;
// 0 is DefaultRequestDepth. Errors are *memproxy.Malformed.
func ParseRequest(src []byte, maxDepth int) (*Doc, error) {
	if maxDepth <= 0 {
		maxDepth = DefaultRequestDepth
	}
	return parse(src, maxDepth, true)
}

// maxNumber is how many characters a number may be written with. Doubles that
// are written exactly take up to 24.
const maxNumber = 128

// maxMagnitude is what no number may exceed. Databases write 1e300 as a whole
// number of 301 digits, which the readers behind them cannot take.
const maxMagnitude = 1 << 63

// minNormal is the smallest positive double of full precision.
const minNormal = 0x1p-1022

// storable reports whether every reader takes the text of a JSON number for
// the same number, and can write it again.
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
	// What became nothing, or almost nothing, on the way was not zero.
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	return !strings.ContainsAny(mantissa, "123456789")
}

// Fold is a name as readers that take look-alikes for the same compare it: in
// lower case, in compatibility form, without invisible characters. "USER_ID",
// "ｕser_id" and "uſer_id" fold to "user_id".
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

// Squash is Fold without what parts the words of a name: "userId", "user-id"
// and "user_id" are one.
func Squash(name string) string {
	return strings.Map(func(r rune) rune { // allocates only where it drops something
		switch r {
		case '_', '-', '.', ' ':
			return -1
		}
		return r
	}, Fold(name))
}

// same reports whether two values are one, as far as that can be told without
// their source: numbers cannot, and count as different. So do objects, because
// a stamp is written into one of them only.
func same(a, b *Value) bool {
	if a.Kind != b.Kind || len(a.Elems) != len(b.Elems) {
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
		for i := range a.Elems {
			if !same(a.Elems[i], b.Elems[i]) {
				return false
			}
		}
		return true
	}
	return false
}

// Alias returns a member of an object whose name is another spelling of a name
// that stands there as well, or false: readers with aliases take either of
// them. Only names that known reports count as the real ones. Two spellings of
// one value mislead nobody, and clients send them.
func Alias(v *Value, known func(string) bool) (Member, bool) {
	for i := range v.Members {
		name := v.Members[i].Name
		if known(name) {
			continue
		}
		squashed := Squash(name)
		for j := range v.Members {
			other := v.Members[j].Name
			if i != j && len(other) >= len(squashed) && known(other) && Squash(other) == squashed && !same(v.Members[i].Value, v.Members[j].Value) {
				return v.Members[i], true
			}
		}
	}
	return Member{}, false
}
