package screen_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/screen"
)

// What nobody can read to its end is held at every sensitivity, whoever wrote it
// and whatever layers are on, and refused from a source that is not to be trusted;
// what is long and full of codes that can be read is not.
//
// Proves SYN-2, SYN-3
func TestWhatCannotBeReadIsHeld(t *testing.T) {
	ring.Long(t, "one text after another")
	code := base64.StdEncoding.EncodeToString([]byte("The meeting with the design team was moved to Tuesday. "))
	endless := "%" + strings.Repeat("25", 3000) + "69"
	readable := map[string]string{
		"codes":  strings.Repeat(code+"\n", 300),
		"nested": base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(code)))),
		"signs":  strings.Repeat("100 % of the 25 % of 69 % ", 200),
		"code":   minified(100 << 10),
	}
	for _, sensitivity := range []string{"low", "medium", "high"} {
		for _, off := range [][]string{nil, {screen.LayerClassify, screen.LayerDirective, screen.LayerLexicon}} {
			s := screener(t, screen.Options{Sensitivity: sensitivity, Disable: off})
			for _, from := range []struct {
				source, trust string
				want          memproxy.Verdict
			}{
				{"", "", memproxy.Hold},
				{"trusted", "system", memproxy.Hold},
				{"untrusted", "established", memproxy.Deny},
				{"hostile", "anonymous", memproxy.Deny},
			} {
				got := s.Text(endless, from.source, from.trust).Verdict
				expect.That(t, got == from.want || from.want == memproxy.Hold && got == memproxy.Deny && sensitivity == "high",
					"%s without %v: from %q by %q: %q, want %q", sensitivity, off, from.source, from.trust, got, from.want)
			}
		}
	}
	s := screener(t, screen.Options{})
	for name, text := range readable {
		r := s.Text(text, "untrusted", "")
		expect.That(t, !r.Verdict.Stops(), "%s: %v", name, r)
	}
}

// minified is a script of n bytes and a little more, in long lines: names run together,
// single letters, strings in quotes and escapes.
func minified(n int) string {
	rng := rand.New(rand.NewPCG(5, 5))
	names := strings.Fields("readableStreamReader defaultController closedPromise createElement ownerDocument tableRow pageNumber animationFrame requestHeaders colorScale")
	var b strings.Builder
	for b.Len() < n {
		name, other := names[rng.IntN(len(names))], names[rng.IntN(len(names))]
		fmt.Fprintf(&b, "function %c(e,r,t){return e.%s?r.%s(t,%q,{a:%q,b:'\\u00%d'}):void 0===r&&(t=%d)}", 'a'+rng.IntN(26), name, other, other, name, 20+rng.IntN(60), rng.IntN(900))
		if rng.IntN(40) == 0 {
			b.WriteString("\n")
		}
	}
	return b.String()
}
