package audit_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/memproxy/memproxy/telemetry/audit"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// A pipe or device in place of one of the log's files is an error: the log neither
// blocks on it nor loses records to it.
func TestOnlyRegularFilesAreWritten(t *testing.T) {
	for name, put := range map[string]func(string) error{
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device": func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		for _, file := range []string{"lock", "checkpoint", "checkpoint" + ".tmp", journalPath(0), journalPath(0) + ".tmp"} {
			dir := ring.Dir(t)
			opt := testOptions(dir)
			l := open(t, opt)
			record(t, l, 1)
			closeLog(t, l)
			path := filepath.Join(dir, filepath.FromSlash(file))
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			must.Do(t, put(path))
			l, err := audit.Open(opt)
			if err != nil {
				continue
			}
			if err := l.Record(t.Context(), someEvent()); err == nil {
				err = l.Close(t.Context())
				if info, serr := os.Lstat(path); err == nil && serr == nil && !info.Mode().IsRegular() {
					t.Errorf("a %s at %s is taken for the file", name, file)
				}
				continue
			}
			_ = l.Close(t.Context())
		}
	}
}
