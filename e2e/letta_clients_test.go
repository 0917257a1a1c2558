//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// lettaDropin is dropin for Letta.
func lettaDropin(upstream string) string {
	return sidecarConf("development", "letta", upstream, "", `identity:
  default: {id: "service:app", kind: service, trust: system, roles: [memproxy-admin], acts_as: "*"}
budgets: {default: {writes_per_hour: 100000, writes_total: 1000000}}
`)
}

// lettaOwn are the steps that answer otherwise through the proxy, and why.
var lettaOwn = map[string]string{
	"agent_bad_id":       "refused by memproxy, in its own words",
	"message_invalid":    "refused by memproxy, in its own words",
	"message_list_pages": "a page holds fewer messages: memproxy's approvals are left out of it",
	"background":         "each run of a background turn numbers its events from 1: docs/letta.md",
	"background_again":   "resuming a background turn shows its first run: docs/letta.md",
}

var (
	lettaNumber = regexp.MustCompile(`<\d+>`)
	// A call that paused is stored in other spelling than one that did not:
	// its arguments without blanks, its otid with a prefix, its first fragment
	// with an empty member; and metadata that held a stamp alone is empty.
	lettaSpelling = []struct {
		of *regexp.Regexp
		is string
	}{
		{regexp.MustCompile(`("otid": ?)"message-`), `$1"`},
		{regexp.MustCompile(`\\": \\"`), `\":\"`},
		{regexp.MustCompile(`, \\"`), `,\"`},
		{regexp.MustCompile(`"(arguments|name)": ?null,`), ``},
		{regexp.MustCompile(`("metadata": ?)\{\}`), `${1}null`},
	}
)

func lettaPlain(line string) string {
	for _, s := range lettaSpelling {
		line = s.of.ReplaceAllString(line, s.is)
	}
	return lettaNumber.ReplaceAllString(line, "<>")
}

// Proves CARD-1, CARD-2: every step of the unmodified Letta SDKs answers through
// the proxy what it answers directly, self-edits, streams and conversations
// included.
func TestLettaClients(t *testing.T) {
	t.Parallel()
	real := startLetta(t) // lists are compared
	car := serve(t, t.TempDir(), lettaDropin(real))
	for i, client := range []string{"ts", "py"} {
		t.Run(client, func(t *testing.T) {
			script := filepath.Join("letta", "sdk", "run.sh")
			env := []string{"STRIP_MEMPROXY=1"}
			direct, code := run(t, env, script, client, "--base", real, "--suffix", fmt.Sprintf("dir%04d", i))
			must.Equal(t, code, 0, "the scenario fails directly", tail(direct, 2000))
			proxied, code := run(t, env, script, client, "--base", car.base, "--suffix", fmt.Sprintf("pxy%04d", i))
			expect.Equal(t, code, 0, "exit code", tail(proxied, 1500))
			want, got := lines(direct), lines(proxied)
			must.That(t, len(want) >= 50 && len(got) == len(want), "%d steps directly, %d through the proxy", len(want), len(got))
			for i := range want {
				var step struct{ Step string }
				_ = json.Unmarshal([]byte(want[i]), &step)
				if lettaOwn[step.Step] != "" {
					continue
				}
				if a, b := lettaPlain(want[i]), lettaPlain(got[i]); a != b {
					n := 0
					for n < min(len(a), len(b)) && a[n] == b[n] {
						n++
					}
					from := max(0, n-200)
					t.Errorf("step %s\n direct  …%s\n proxied …%s", step.Step, a[from:min(len(a), n+300)], b[from:min(len(b), n+300)])
				}
			}
			expect.That(t, !strings.Contains(proxied, "approval_request_message") || strings.Contains(direct, "approval_request_message"), "the client sees the gate's pauses")
		})
	}
}
