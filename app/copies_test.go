package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves EDGE-3: a ledger can be backed up while a process has it open, and is not
// restored until that process has ended.
func TestLedgerInUseIsBackedUpButNotReplaced(t *testing.T) {
	var log strings.Builder
	cfg, err := config.Parse("memproxy.yaml", fmt.Appendf(nil, `profile: development
state: %s
backends:
  - {name: mem0, kind: mem0, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1"}
`, filepath.Join(ring.Dir(t), "state")), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Log: &log, Getenv: func(string) string { return "" }}
	must.Do(t, os.MkdirAll(filepath.Join(cfg.State, "keys"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(cfg.State, "ledger.db"), ledgertest.OldFile(t), 0o600))
	st := must.Get(openState(t.Context(), cfg, o, nil, slog.LevelInfo))(t)
	for _, part := range []string{"a copy is made", "schema 22 of 22"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log does not say %q:\n%s", part, log.String())
		}
	}
	file := filepath.Join(t.TempDir(), "backup.db")
	must.Do(t, BackupLedger(t.Context(), cfg, file))
	if err := RestoreLedger(t.Context(), cfg, o, file, "testing", true); err == nil || !strings.Contains(err.Error(), "a sidecar runs on this state") {
		t.Errorf("under a process: %v", err)
	}
	must.Do(t, st.Close(t.Context()))
	if err := RestoreLedger(t.Context(), cfg, o, file, "testing", true); err != nil {
		t.Error(err)
	}
}
