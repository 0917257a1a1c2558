package ring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
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
		expect.OK(t, expect.Err(os.Stat(dir)), "while all processes run")
	}
	killed.Close() // as the system does for a process that ends
	sweep(in)
	expect.Equal(t, os.IsNotExist(expect.Err(os.Stat(left))), true, "a directory whose process has ended is left")
	for _, dir := range []string{live, other} {
		expect.OK(t, expect.Err(os.Stat(dir)), "a directory of others is removed")
	}
	expect.Equal(t, os.IsNotExist(expect.Err(lockDir(left, 0))), true, "a directory that was removed before it was locked")
}
