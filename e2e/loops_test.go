//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
)

// What a person decided stays decided through every loop, with production's
// intervals, where the ledger is Postgres as well: the test of it runs in its
// own package, here with a database.
//
// Proves EDGE-15, SYN-9, DOL-3
func TestDecisionsOutliveTheLoopsOnPostgres(t *testing.T) {
	t.Parallel()
	addr := freeport.Addr(t)
	startPostgres(t, t.TempDir(), addr)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^TestReviewDecisionsSurviveBackgroundLoops$", "./app")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "MEMPROXY_TEST_POSTGRES="+postgresURL(addr))
	out, err := cmd.CombinedOutput()
	must.Do(t, err, out)
	expect.Text(t, string(out), "it did not run on Postgres").Has("--- PASS: TestReviewDecisionsSurviveBackgroundLoops/Postgres")
}
