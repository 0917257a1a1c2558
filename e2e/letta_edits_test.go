//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Proves EDGE-16: new calls, made by the day, are run by the server's own code,
// and memproxy comes to the same memory or refuses them; nothing is left there
// that the gate did not see.
func TestLettaSelfEditsAreReadAsTheServerReadsThem(t *testing.T) {
	home := os.Getenv("E2E_HOME")
	if home == "" {
		home = filepath.Join("..", ".e2e")
	}
	python, err := filepath.Abs(filepath.Join(home, "letta-py", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	seed := time.Now().Unix() / (24 * 60 * 60)
	t.Logf("seed %d", seed)
	made := exec.Command(python, "selfedits.py", fmt.Sprint(seed), "4000")
	made.Dir = "letta"
	lines, err := made.Output()
	if err != nil {
		t.Fatal(err)
	}
	calls := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(calls, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"selfedit", "turn"} {
		read := exec.Command("go", "test", "-count=1", "-run", "TestMemoryBecomesWhatTheServerMakesOfIt|TestNothingIsInMemoryThatTheGateDidNotSee", ".", "-calls", calls)
		read.Dir = filepath.Join("..", "adapters", "letta", pkg)
		if out, err := read.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", pkg, err, tail(string(out), 4000))
		}
	}
}
