package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// putBack atomically replaces a directory by an earlier copy, by rename. A running log
// may create the directory anew for a pending record; that one is replaced as well.
// There are no more such records than writes.
func putBack(t *testing.T, copied, dir string) {
	t.Helper()
	staged := dir + ".earlier"
	must.Do(t, os.CopyFS(staged, os.DirFS(copied)))
	var err error
	for i := range 10 {
		gone := fmt.Sprintf("%s.replaced-%d", dir, i)
		if err = os.Rename(dir, gone); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err = os.Rename(staged, dir); err == nil {
			if err = os.RemoveAll(gone); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal(err)
}

// Proves CARD-4, CARD-7: restoring stores from an old copy has the documented effect.
// If the audit directory is replaced while the sidecar runs, requests get 503 and no
// record is lost, since it is written again. If it is replaced while the sidecar is
// stopped, alone or with the ledger, only an external checkpoint detects it.
func TestAuditLogPutBack(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		running bool
		ledger  bool
		cut     bool
	}{
		"running":                            {true, false, false},
		"stopped":                            {false, false, true},
		"stopped, with the ledger as it was": {false, true, true},
	} {
		t.Run(what, func(t *testing.T) {
			r := start(t, plain)
			state := filepath.Join(r.dir, "state")
			dir := filepath.Join(state, "audit")
			write := func() int { return r.do("POST", "/memories", note).status }
			write()
			r.stop()
			copied, file := filepath.Join(t.TempDir(), "copy"), filepath.Join(state, "ledger.db")
			must.Do(t, os.CopyFS(copied, os.DirFS(dir)))
			ledger := must.Get(os.ReadFile(file))(t)
			r.run()
			for range 5 {
				write()
			}
			if !tc.running {
				r.stop()
			}
			checkpoint := must.Get(os.ReadFile(filepath.Join(dir, "checkpoint")))(t)
			kept := writeFile(t, filepath.Join(t.TempDir(), "checkpoint"), string(checkpoint))
			putBack(t, copied, dir)
			if tc.ledger {
				writeFile(t, file, string(ledger))
			}
			if !tc.running {
				r.run()
			}
			for i := range 3 { // the first record that notices may be an outcome, which has no waiting caller
				if status := write(); status != 200 && (status != 503 || i > 0 || !tc.running) {
					t.Errorf("write %d is answered %d", i, status)
				}
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
