package baseline

import (
	"net/netip"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

// domain is a name in a text, by the hash of its registrable part.
type domain struct {
	hash       uint64
	start, end int
}

const maxFound = 32 // how many domains of one text are looked at

// tops are top-level domains by which a bare name (no scheme, no www, no @) is
// taken for a domain and not for a file or the end of a sentence.
var tops = terms.Set("com org net io ai dev app co info biz xyz top site online shop store cloud ru cn de fr uk tr es it nl pl br in jp eu us example test")

// seconds are second-level names under which countries register.
var seconds = terms.Set("co com org net gov edu ac gen or ne")

// domains finds the host names in text: of URLs, of mail addresses, and bare.
func domains(text string) []domain {
	var out []domain
	for i := 0; i < len(text) && len(out) < maxFound; {
		if !hostByte(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && hostByte(text[i]) {
			i++
		}
		host := strings.ToLower(strings.Trim(text[start:i], ".-"))
		if len(host) > 253 || !strings.Contains(host, ".") {
			continue
		}
		plain := strings.HasSuffix(text[:start], "://") || strings.HasSuffix(text[:start], "@") || strings.HasPrefix(host, "www.")
		if name := registrable(host, plain); name != "" {
			out = append(out, domain{terms.Hash(name), start, i})
		}
	}
	return out
}

func hostByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '-'
}

// registrable returns the part of a host name that somebody registered, an
// address as it is, or "".
func registrable(host string, plain bool) string {
	if _, err := netip.ParseAddr(host); err == nil {
		if plain {
			return host
		}
		return ""
	}
	labels := strings.Split(host, ".")
	n := len(labels)
	top := labels[n-1]
	if n < 2 || strings.Contains(host, "..") || len(top) < 2 || strings.ContainsAny(top, "0123456789") && !strings.HasPrefix(top, "xn--") || !plain && !tops[top] {
		return ""
	}
	if n > 2 && len(top) == 2 && seconds[labels[n-2]] {
		return strings.Join(labels[n-3:], ".")
	}
	return strings.Join(labels[n-2:], ".")
}
