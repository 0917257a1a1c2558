package spelling_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// Claim reads a name byte by byte; it agrees with folding the name as a whole.
//
// Proves EDGE-13.
func FuzzClaim(f *testing.F) {
	squash := strings.NewReplacer("_", "", "-", "", ".", "", " ", "")
	n := spelling.New([]string{"user_id", "agent_id"}, []string{"run_id"}, nil)
	claims := map[string]string{"userid": "user_id", "agentid": "agent_id", "runid": "run_id"}
	for _, name := range []string{"user_id", "userId", "USER-ID", "user.id", "user id", "us\x7fer_id", "us\x1fer_id", "\u017fer_id", "user_\u0131d", "u\u200bser_id", "ｕser_id", "1user_id", "user_1d", "us€er_id", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := n.Claim(name), claims[squash.Replace(jsondoc.Fold(name))]; got != want {
			t.Errorf("%q: %q, the slow way says %q", name, got, want)
		}
	})
}
