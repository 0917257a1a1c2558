//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Proves EDGE-14: 2,000 connections of each hostile kind against the binary as
// it ships, in production with default limits, while an ordinary client writes
// and searches: all of its requests are answered, in time, and the process
// stays within 256 MiB. The bound of time is wide, because attackers, client and
// proxy share the machine; docs/performance.md has the measurement.
func TestOrdinaryClientUnderAttack(t *testing.T) {
	report := filepath.Join(t.TempDir(), "hostile.json")
	cmd := exec.Command("go", "run", "./bench", "-hostile", "-same=false", "-attack-length", "12s", "-report", report,
		"-attack", "slow-headers,slow-bodies-passed,slow-bodies-gated,slow-bodies-unknown,announced,never-reading,flood-401")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var results []struct {
		Kind   string
		Served struct {
			Requests, Failed int
			FirstError       string
			P99              time.Duration
		}
		PeakRSS int64
		Tallies map[string]struct{ Most int }
	}
	if err := json.Unmarshal(raw, &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != 7 {
		t.Fatalf("%d kinds were measured", len(results))
	}
	for _, r := range results {
		t.Logf("%s: p99 %v of %d requests, %d failed, peak %d MiB", r.Kind, r.Served.P99, r.Served.Requests, r.Served.Failed, r.PeakRSS>>10)
		if most := r.Tallies[r.Kind].Most; most < 1900 {
			t.Errorf("%s: only %d hostile connections were open at once", r.Kind, most)
		}
		if r.Served.Failed > 0 || r.Served.Requests < 100 {
			t.Errorf("%s: %d of %d requests failed: %s", r.Kind, r.Served.Failed, r.Served.Requests, r.Served.FirstError)
		}
		if r.PeakRSS>>10 >= 256 {
			t.Errorf("%s: the process took %d MiB", r.Kind, r.PeakRSS>>10)
		}
		if r.Served.P99 > time.Second {
			t.Errorf("%s: p99 %v", r.Kind, r.Served.P99)
		}
	}
}
