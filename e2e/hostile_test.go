//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-14: 2,000 connections of each hostile kind against the binary as
// it ships, in production with default limits, while an ordinary client writes
// and searches: all of its requests are answered, in time, and the process
// stays within 256 MiB. The bound of time is wide, because attackers, client and
// proxy share the machine; docs/performance.md has the measurement.
func TestOrdinaryClientUnderAttack(t *testing.T) {
	ring.Slow(t, "measures latency under 2,000 connections of each kind")
	kinds := []string{"slow-headers", "slow-bodies-passed", "slow-bodies-gated", "slow-bodies-unknown", "announced", "never-reading", "flood-401"}
	results := underAttack(t, "-same=false", "-attack", strings.Join(kinds, ","))
	must.Len(t, results, len(kinds))
	for _, r := range results {
		// An address has 1,536; others are closed for newcomers, and come back.
		most := r.Tallies[r.Kind].Most
		expect.That(t, most >= 1500, "%s: only %d hostile connections were open at once", r.Kind, most)
		r.served(t, 100, time.Second)
	}
}

// The same with all kinds at once, 16,000 connections, from another address and
// from the ordinary client's own. It is not met on two cores that the attackers
// share (docs/performance.md), and runs by hand: ALL_AT_ONCE=1.
func TestOrdinaryClientUnderAllAttacksAtOnce(t *testing.T) {
	t.Parallel()
	if os.Getenv("ALL_AT_ONCE") == "" {
		t.Skip("not met where attackers and proxy share two cores; ALL_AT_ONCE=1 measures it")
	}
	results := underAttack(t, "-attack", "all at once")
	must.That(t, len(results) == 2 && results[0].Address != results[1].Address, "measured: %+v", results)
	for _, r := range results {
		r.served(t, 50, 5*time.Second)
	}
}

// attacked is what an ordinary client had under one attack.
type attacked struct {
	Kind, Address string
	Served        struct {
		Requests, Failed int
		FirstError       string
		P99              time.Duration
	}
	PeakRSS int64 // KiB
	Tallies map[string]struct{ Most int }
}

func underAttack(t *testing.T, args ...string) (results []attacked) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "hostile.json")
	cmd := exec.Command("go", append([]string{"run", "./bench", "-hostile", "-attack-length", "12s", "-report", report}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	must.That(t, err == nil, "%v\n%s", err, out)
	raw := must.Get(os.ReadFile(report))(t)
	must.Do(t, json.Unmarshal(raw, &results))
	return results
}

// served reports what the client or the process suffered.
func (r *attacked) served(t *testing.T, requests int, p99 time.Duration) {
	t.Helper()
	t.Logf("%s from the %s address: p99 %v of %d requests, %d failed, peak %d MiB", r.Kind, r.Address, r.Served.P99, r.Served.Requests, r.Served.Failed, r.PeakRSS>>10)
	expect.That(t, r.Served.Failed == 0 && r.Served.Requests >= requests, "%s: %d of %d requests failed: %s", r.Kind, r.Served.Failed, r.Served.Requests, r.Served.FirstError)
	expect.That(t, r.PeakRSS>>10 < 256, "%s: the process took %d MiB", r.Kind, r.PeakRSS>>10)
	expect.That(t, r.Served.P99 <= p99, "%s: p99 %v", r.Kind, r.Served.P99)
}
