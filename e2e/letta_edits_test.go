//go:build e2e

package e2e

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-16: generated calls, others for each EDITS_SEED, are run by the server's own code,
// and memproxy comes to the same memory or refuses them; nothing is left there
// that the gate did not see.
func TestLettaSelfEditsAreReadAsTheServerReadsThem(t *testing.T) {
	t.Parallel()
	python := part(t, "letta-py", "bin", "python")
	seed := cmp.Or(os.Getenv("EDITS_SEED"), "0")
	t.Logf("EDITS_SEED=%s makes the same calls", seed)
	made := exec.Command(python, "selfedits.py", seed, "4000")
	made.Dir = "letta"
	lines := must.Get(made.Output())(t)
	calls := filepath.Join(t.TempDir(), "calls.jsonl")
	must.Do(t, os.WriteFile(calls, lines, 0o600))
	for _, pkg := range []string{"selfedit", "turn"} {
		read := exec.Command("go", "test", "-count=1", "-run", "TestMemoryBecomesWhatTheServerMakesOfIt|TestNothingIsInMemoryThatTheGateDidNotSee", ".", "-calls", calls)
		read.Dir = filepath.Join("..", "adapters", "letta", pkg)
		if out, err := read.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", pkg, err, tail(string(out), 4000))
		}
	}
}
