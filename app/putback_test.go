package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// putBack replaces a directory by an earlier copy of it.
func putBack(t *testing.T, copied, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(copied)); err != nil {
		t.Fatal(err)
	}
}

// Proves CARD-4, CARD-7: what is said of stores that are put back to an earlier copy is
// so. An audit directory that is replaced while the sidecar runs costs a refusal with 503
// and no record: what it lost is written anew. One that is replaced while the sidecar is
// stopped, alone or with the ledger, is found by a checkpoint that was kept elsewhere, and
// by nothing else.
func TestTheAuditLogPutBack(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		running  bool
		ledger   bool
		statuses []int
		cut      bool
	}{
		"running":                            {true, false, []int{503, 200, 200}, false},
		"stopped":                            {false, false, []int{200, 200, 200}, true},
		"stopped, with the ledger as it was": {false, true, []int{200, 200, 200}, true},
	} {
		t.Run(what, func(t *testing.T) {
			r := start(t, plain)
			state := filepath.Join(r.dir, "state")
			dir := filepath.Join(state, "audit")
			write := func() int { return r.do("POST", "/memories", note).status }
			write()
			r.stop()
			copied, file := filepath.Join(t.TempDir(), "copy"), filepath.Join(state, "ledger.db")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			ledger, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r.run()
			for range 5 {
				write()
			}
			if !tc.running {
				r.stop()
			}
			checkpoint, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
			if err != nil {
				t.Fatal(err)
			}
			kept := writeFile(t, filepath.Join(t.TempDir(), "checkpoint"), string(checkpoint))
			putBack(t, copied, dir)
			if tc.ledger {
				writeFile(t, file, string(ledger))
			}
			if !tc.running {
				r.run()
			}
			statuses := []int{write(), write(), write()}
			if !slices.Equal(statuses, tc.statuses) {
				t.Errorf("answered %v, want %v", statuses, tc.statuses)
			}
			r.stop()
			if code, out, errs := invoke(t, "audit", "verify", "--dir", dir); code != 0 {
				t.Errorf("verified by itself: %s%s", out, errs)
			}
			code, out, errs := invoke(t, "audit", "verify", "--dir", dir, "--checkpoint", kept)
			if (code != 0) != tc.cut || tc.cut && !strings.Contains(out+errs, "rollback") && !strings.Contains(out+errs, "fork") {
				t.Errorf("verified against the checkpoint: exit %d %s%s", code, out, errs)
			}
		})
	}
}
