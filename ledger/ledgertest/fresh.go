package ledgertest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/ledger"
)

// File puts at a path what Open makes of a missing file: a ledger of the newest
// schema with nothing in it. The migrations, which cost more than most tests do
// with the ledger, run once a process; TestMigrations is about them.
func File(t testing.TB, path string) {
	t.Helper()
	b, err := fresh()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var fresh = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "memproxy")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	l, err := ledger.Open(ledger.Options{Path: path})
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
