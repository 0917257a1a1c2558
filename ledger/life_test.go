package ledger_test

import (
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves SYN-5, SYN-7, SYN-8, SYN-9, TRL-3, TRL-5, TRL-7, TRL-9, MFW-7, EDGE-5, EDGE-11.
func TestLife(t *testing.T) {
	for name, file := range map[string]string{"file": "ledger.db", "memory": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.RunLife(t, func(t *testing.T, opt ledger.Options) (one, other *ledger.Ledger) {
				if file != "" {
					opt.Path = filepath.Join(t.TempDir(), file)
				}
				one = open(t, opt)
				return one, one
			})
		})
	}
}
