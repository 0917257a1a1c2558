package origin

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// ReadConfidence reads a claimed confidence. The value is rounded up to the per mille, so that a value above
// a ceiling never becomes equal to it, and zero to one per mille, because a recorded confidence
// of zero is an unknown one. Anything but a number from 0 to 1 counts as full confidence.
func ReadConfidence(doc *jsondoc.Doc, v *jsondoc.Value, ptr string) memproxy.ConfidenceClaim {
	h := memproxy.ConfidenceClaim{Pointer: ptr, Raw: string(doc.Raw(v)), Claimed: memproxy.Full}
	if v.Kind == jsondoc.Number {
		if n, ok := perMille(h.Raw); ok {
			h.Claimed, h.Legible = n, true
		}
	}
	return h
}

// minExact is the smallest number that is read exactly, because an exact value of 1e-300 needs
// 300 digits.
const minExact = 1e-6

// perMille parses a number from 0 to 1, exactly and not as a double, and rounds it up
// to the per mille.
func perMille(text string) (memproxy.PerMille, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > 1 {
		return 0, false
	}
	if f < minExact {
		mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
		return 1, !strings.HasPrefix(text, "-") || !strings.ContainsAny(mantissa, "123456789")
	}
	if digits, ok := strings.CutPrefix(text, "0."); ok && len(digits) <= 3 { // fast path for the usual form
		n, err := strconv.ParseUint((digits + "000")[:3], 10, 16)
		return memproxy.PerMille(n), err == nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, false
	}
	r.Mul(r, big.NewRat(int64(memproxy.Full), 1))
	whole, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	p := memproxy.PerMille(whole.Int64() + int64(rest.Sign()))
	return p, p <= memproxy.Full
}
