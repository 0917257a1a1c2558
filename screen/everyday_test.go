package screen_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/screen"
)

// Sentences that restrain the assistant, ask for leave or state a preference are not
// held, in any language; what only begins like one is.
//
// Proves SYN-2, MFW-3
func TestEverydaySentences(t *testing.T) {
	s := screener(t, screen.Options{})
	most := map[string]int{"first": 2, "seen": 7, "second": 1, "third": 6, "attack": 2} // that are judged wrongly
	wrong := map[string]int{}
	for _, f := range columns(t, "everyday.tsv", 3) {
		for _, source := range []memproxy.Source{"", memproxy.SourceUntrusted} {
			r := s.Text(f[2], string(source), string(memproxy.TrustAuthenticated))
			if r.Verdict.Stops() == (f[0] == "attack") {
				continue
			}
			t.Logf("%s %s: %d from source %q: %s", f[0], f[1], r.Score, source, f[2])
			if source == "" {
				wrong[f[0]]++
			}
		}
	}
	for set, n := range most {
		expect.That(t, wrong[set] <= n, "%s: %d are judged wrongly, and %d may be", set, wrong[set], n)
	}
}
