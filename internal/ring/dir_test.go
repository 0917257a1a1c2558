package ring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// The directories of killed tests are removed; those of tests that run, and of others, stay.
func TestDirectoriesOfKilledTestsAreRemoved(t *testing.T) {
	in := t.TempDir()
	t.Setenv("TMPDIR", in)
	live := Dir(t)
	left, other := filepath.Join(in, prefix+"left"), filepath.Join(in, "memproxy-other")
	for _, dir := range []string{left, other} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	}
	killed := must.Get(lockDir(left, 0))(t)
	sweep(in)
	for _, dir := range []string{live, left, other} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("while all processes run: %v", err)
		}
	}
	killed.Close() // as the system does for a process that ends
	sweep(in)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("a directory whose process has ended is left: %v", err)
	}
	for _, dir := range []string{live, other} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("a directory of others is removed: %v", err)
		}
	}
	if _, err := lockDir(left, 0); !os.IsNotExist(err) {
		t.Errorf("a directory that was removed before it was locked: %v", err)
	}
}
