package frontend_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-15, EDGE-13: however a stream is cut, at every byte and into single
// bytes, both listeners see the same events, and nothing is lost. The cost of many small
// pieces is linear.
func TestEventsAreTheSameHoweverTheyAreCut(t *testing.T) {
	parts := []string{"data: {\"a\":1}", "event: error", ": comment", "id: 7", "\n", "\r\n", "\n\n", "\r\n\r\n", "\r", "\r\r", "data:", " ", "", "\n\r\n", "data: é\u2028"}
	random := rand.New(rand.NewPCG(3, 1))
	samples := []string{strings.Repeat("data: {}\n\n", 3000), strings.Repeat("\n", 3000) + "data: {}"}
	for range 200 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		samples = append(samples, b.String())
	}
	whatCame := func(r io.Reader) (out []string) {
		in := frontend.NewEventReader(r, 1<<20, nil)
		for {
			event, err := in.Next(context.Background())
			if errors.Is(err, io.EOF) {
				return out
			}
			must.Do(t, err)
			out = append(out, string(event))
		}
	}
	fed := func(pieces ...string) (out []string) {
		in := frontend.Events{Max: 1 << 20}
		for _, piece := range pieces {
			events := must.Get(in.Feed([]byte(piece)))(t)
			for _, event := range events {
				out = append(out, string(event))
			}
		}
		for _, rest := range in.Rest() {
			out = append(out, string(rest))
		}
		return out
	}
	for _, s := range samples {
		whole := whatCame(strings.NewReader(s))
		kept := func(text string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(text) }
		expect.Equal(t, strings.TrimSpace(kept(strings.Join(whole, ""))), strings.TrimSpace(kept(s)), s, "of it", "is there")
		same := func(how string, got []string) {
			t.Helper()
			expect.List(t, got, whole, s, how)
		}
		same("byte by byte", whatCame(iotest.OneByteReader(strings.NewReader(s))))
		same("fed whole", fed(s))
		same("fed byte by byte", fed(strings.Split(s, "")...))
		for i := range min(len(s), 200) {
			same(fmt.Sprint("cut at ", i), whatCame(io.MultiReader(strings.NewReader(s[:i]), strings.NewReader(s[i:]))))
			same(fmt.Sprint("fed in two, cut at ", i), fed(s[:i], s[i:]))
		}
	}
}
