package screen_test

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/evasion"
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
		return f.Rule != screen.RuleBounds && f.Start <= at+len(what) && f.End > at
	})
}

// What is found wherever it stands in 4 KB of prose is found wherever it stands in a
// long document, which is read in pieces: at its ends, in the middle, and on borders.
//
// Proves SYN-2
func TestLongTextsHideNothing(t *testing.T) {
	ring.Long(t, "one text after another")
	s := screener(t, screen.Options{})
	short, lengths := document(4<<10), []int{20 << 10, 64 << 10}
	if ring.IsSlow {
		lengths = append(lengths, 200<<10)
	}
	var long []string
	for _, n := range lengths {
		text := document(n)
		if r := s.Text(text, "", ""); r.Verdict.Stops() {
			t.Fatalf("%d bytes of prose alone: %v", n, r)
		}
		long = append(long, text)
	}
	tried := 0
	for i, tr := range append(evasion.Transforms(), evasion.Transform{Name: "plain", Apply: strings.Clone}) {
		if i%ring.Share(12, 12) != 0 {
			continue
		}
		what := tr.Apply(evasion.Poisons()[i%len(evasion.Poisons())])
		if !within(s, short, what, 0) || !within(s, short, what, len(short)/2) || !within(s, short, what, len(short)) {
			continue // what says that it is hidden is that there is little else
		}
		tried++
		for _, text := range long {
			for _, at := range []int{0, 4<<10 - len(what)/2, 4<<10 - 64, 7 << 10, len(text)/2 + 37, len(text)} {
				if !within(s, text, what, at) {
					t.Errorf("%s: it is not found at %d of %d", tr.Name, at, len(text))
				}
			}
		}
	}
	if all := len(evasion.Transforms()) / ring.Share(12, 12); tried*10 < all*8 {
		t.Errorf("%d of %d transforms are tried", tried, all)
	}
}

// A code that is longer than a piece is decoded as a whole, and what it says is read
// to its end, in pieces again.
//
// Proves SYN-2
func TestLongCodesHideNothing(t *testing.T) {
	s := screener(t, screen.Options{})
	prose, poison := document(30<<10), evasion.Poisons()[1]
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, code := range map[string]string{
		"base64":           b64(prose + poison),
		"base64, reversed": reverse(b64(prose + poison)),
		"base64, escaped":  strings.ReplaceAll(b64(prose+poison), "Q", "%51"),
		"base64, twice":    b64(b64(prose + poison)),
	} {
		if !within(s, prose, code, len(prose)/2) {
			t.Errorf("%s: what its end says is not found", name)
		}
	}
}

func reverse(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}
