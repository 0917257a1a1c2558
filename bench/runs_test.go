//go:build slow

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Every measurement that needs nothing but Go still runs: it starts memproxy with
// options that it takes, and reads answers that it gives.
func TestMeasurementsRun(t *testing.T) {
	ring.Slow(t, "builds memproxy and starts it as a process, and measures for a minute")
	bin := filepath.Join(t.TempDir(), "bench")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line, want := range map[string]string{
		"-quick -rounds 1":                     "| memproxy |",
		"-quick -rounds 1 -chat":               "| memproxy |",
		"-quick -letta":                        "| memproxy |",
		"-fleet -sidecars 5":                   "one real sidecar",
		"-ledger -memories 1000 -length 100ms": "a read of one memory through the gate",
		"-hostile -attack slow-headers -attackers 20 -attack-length 500ms": "| slow-headers | other |",
	} {
		t.Run(line, func(t *testing.T) {
			expect.Text(t, string(must.Get(exec.CommandContext(t.Context(), bin, strings.Fields(line)...).CombinedOutput())(t))).Has(want)
		})
	}
}
