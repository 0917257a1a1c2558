package origin

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Hint reads a claimed confidence. It is rounded up to the per mille, so that a value
// over a ceiling never equals it. Anything but a number from 0 to 1 counts as full
// confidence.
func Hint(doc *jsondoc.Doc, v *jsondoc.Value, ptr string) memproxy.Hint {
	h := memproxy.Hint{Pointer: ptr, Raw: string(doc.Raw(v)), Claimed: memproxy.Full}
	if v.Kind == jsondoc.Number {
		if n, ok := perMille(h.Raw); ok {
			h.Claimed, h.Legible = n, true
		}
	}
	return h
}

// least is the smallest number that is compared exactly. Smaller ones only count as
// zero or not: an exact reading of 1e-300 takes 300 digits.
const least = 1e-6

// perMille parses a number from 0 to 1, exactly and not as a double, and rounds it up
// to the per mille.
func perMille(text string) (memproxy.PerMille, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > 1 {
		return 0, false
	}
	if f < least {
		mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
		if !strings.ContainsAny(mantissa, "123456789") {
			return 0, true
		}
		return 1, !strings.HasPrefix(text, "-")
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	shift, err := strconv.Atoi(cmp.Or(exponent, "0"))
	digits := strings.TrimLeft(whole+fraction, "0")
	// So many of the digits, or with so many zeros, are the whole part of the thousandfold.
	n := len(digits) - len(fraction) + shift + 3
	if err != nil || n > len("1000") {
		return 0, false
	}
	n = max(n, 0)
	more := memproxy.PerMille(0)
	if rest := digits[min(n, len(digits)):]; strings.Trim(rest, "0") != "" {
		more = 1
	}
	share, _ := strconv.Atoi(digits[:min(n, len(digits))] + "0000"[:max(0, n-len(digits))])
	p := memproxy.PerMille(share) + more
	return p, p <= memproxy.Full
}
