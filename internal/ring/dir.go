package ring

import (
	"cmp"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// prefix begins the names of directories that Dir makes, and of nothing else.
const prefix = "memproxy-test-"

// Dir is a new directory for the state of a process that the test runs, in memory
// where the system has room for it there: no test pulls the plug, so none needs
// to wait for a disk that is told to flush each decision. Those of tests that were
// killed are removed by the next process that calls Dir.
func Dir(t testing.TB) string {
	t.Helper()
	in := cmp.Or(memory(), os.TempDir())
	sweepOnce(in)
	for {
		dir, err := os.MkdirTemp(in, prefix)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := lockDir(dir, 0)
		if os.IsNotExist(err) {
			continue // swept before it was locked
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
			lock.Close()
		})
		return dir
	}
}

// lockDir locks a directory until the returned file is closed or the process ends, however
// it ends.
func lockDir(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how); err == nil {
		_, err = os.Stat(dir) // another may have removed it before the lock was free
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes the directories in a directory whose processes have ended. Failures are
// left to the next process.
func sweep(in string) {
	old, _ := filepath.Glob(filepath.Join(in, prefix+"*")) // the pattern is well-formed
	for _, dir := range old {
		if lock, err := lockDir(dir, syscall.LOCK_NB); err == nil {
			_ = os.RemoveAll(dir)
			lock.Close()
		}
	}
}

var swept sync.Once

func sweepOnce(in string) { swept.Do(func() { sweep(in) }) }
