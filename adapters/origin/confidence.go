package origin

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Hint reads a claimed confidence. What lies between two per mille counts as
// the upper one, so that nothing over a ceiling is taken for what is on it;
// what is not a number from 0 to 1 counts as the highest claim.
func Hint(doc *jsondoc.Doc, v *jsondoc.Value, ptr string) memproxy.Hint {
	h := memproxy.Hint{Pointer: ptr, Raw: string(doc.Raw(v)), Claimed: memproxy.Full}
	if v.Kind == jsondoc.Number {
		if n, ok := perMille(h.Raw); ok {
			h.Claimed, h.Legible = n, true
		}
	}
	return h
}

// least is what is compared exactly. Below it, all that counts is whether
// something is there: an exact reading of 1e-300 takes 300 digits.
const least = 1e-6

// perMille is the text of a number from 0 to 1 in per mille, rounded up, read
// exactly and not as a double.
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
	exact, ok := new(big.Rat).SetString(text)
	if !ok || exact.Cmp(big.NewRat(1, 1)) > 0 {
		return 0, false
	}
	exact.Mul(exact, big.NewRat(1000, 1))
	whole, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return memproxy.PerMille(whole.Int64()), true
}
