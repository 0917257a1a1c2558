package screen_test

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/evasion"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/screen"
)

// document is ordinary prose of n bytes and a little more, in paragraphs.
func document(n int) string {
	rng := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(evasion.Benign()[rng.IntN(len(evasion.Benign()))])
		b.WriteString([]string{" ", " ", " ", "\n", "\n\n"}[rng.IntN(5)])
	}
	return b.String()
}

// within reports whether a text is stopped for what stands in it at a place.
func within(s *screen.Screener, around, what string, at int) bool {
	if k := strings.LastIndexAny(around[:at], ".\n"); k >= 0 {
		at = k + 1
	}
	r := s.Text(around[:at]+"\n"+what+"\n"+around[at:], "", "")
	return r.Verdict.Stops() && slices.ContainsFunc(r.Findings, func(f memproxy.Finding) bool {
		return f.Rule != screen.RuleTruncated && f.Start <= at+len(what) && f.End > at
	})
}

// A long document, which is read in pieces, hides nothing that the 4 KB around it
// would not: at its ends, in the middle, and on borders, it is found as often there.
// How the parts lie that are judged together decides about one place or another.
//
// Proves SYN-2
func TestLongTextsHideNothing(t *testing.T) {
	ring.Long(t, "one text after another")
	s := screener(t, screen.Options{})
	var texts []string
	lengths := []int{20 << 10, 64 << 10}
	if ring.IsSlow {
		lengths = append(lengths, 200<<10)
	}
	for _, n := range lengths {
		text := document(n)
		r := s.Text(text, "", "")
		must.That(t, !r.Verdict.Stops(), "%d bytes of prose alone: %v", n, r)
		texts = append(texts, text)
	}
	const around = 2 << 10
	places, inLong, inShort := 0, 0, 0
	for i, tr := range append(evasion.Transforms(), evasion.Transform{Name: "plain", Apply: strings.Clone}) {
		if i%ring.Share(24, 24) != 0 {
			continue
		}
		what := tr.Apply(evasion.Poisons()[i%len(evasion.Poisons())])
		long, short := 0, 0
		for _, text := range texts {
			for _, at := range []int{0, 4<<10 - len(what)/2, 4<<10 - 64, 7 << 10, len(text)/2 + 37, len(text)} {
				places++
				if within(s, text, what, at) {
					long++
				}
				from, to := max(0, at-around), min(len(text), at+around)
				if within(s, text[from:to], what, at-from) {
					short++
				}
			}
		}
		expect.That(t, long+1 >= short, "%s: it is found at %d places of long texts, and at %d in 4 KB", tr.Name, long, short)
		inLong, inShort = inLong+long, inShort+short
	}
	expect.That(t, inLong*1000 >= inShort*995 && inLong*10 >= places*9, "of %d, %d are found in long texts, and %d in 4 KB", places, inLong, inShort)
}

// A code that is longer than a piece is decoded as a whole, and what it says is read
// to its end, in pieces again.
//
// Proves SYN-2
func TestLongCodesHideNothing(t *testing.T) {
	ring.Long(t, "one text after another")
	s := screener(t, screen.Options{})
	prose, poison := document(30<<10), evasion.Poisons()[1]
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, code := range map[string]string{
		"base64":           b64(prose + poison),
		"base64, reversed": reverse(b64(prose + poison)),
		"base64, escaped":  strings.ReplaceAll(b64(prose+poison), "Q", "%51"),
		"base64, twice":    b64(b64(prose + poison)),
	} {
		expect.That(t, within(s, prose, code, len(prose)/2), "%s: what its end says is not found", name)
	}
}

func reverse(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}
