package ring

import (
	"os"
	"testing"
)

// Dir is a new directory for the state of a process that the test runs, in memory
// where the system has room for it there: no test pulls the plug, so none needs
// to wait for a disk that is told to flush each decision.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(memory(), "memproxy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
