package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy/telemetry/audit"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// waitReserve waits until the log is idle, and checks that journal n is preallocated.
func waitReserve(t *testing.T, opt audit.Options, n int64) {
	t.Helper()
	synctest.Wait()
	must.Equal(t, must.Get(os.Stat(filepath.Join(opt.Dir, journalPath(n))))(t).Size(), opt.Reserve, "journal", n)
}

// Proves CARD-7: a preallocated journal is used, a crash leaves nothing in it that
// looks like damage, and unused ones are removed.
func TestJournalsArePreallocated(t *testing.T) { synctest.Test(t, journalsArePreallocated) }

func journalsArePreallocated(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	opt.Reserve = 300 << 10
	l := open(t, opt)
	record(t, l, 1)
	waitReserve(t, opt, 1)
	record(t, l, 256)
	second := filepath.Join(opt.Dir, journalPath(1))
	must.Equal(t, must.Get(os.Stat(second))(t).Size(), opt.Reserve, "the file that was laid out")
	waitReserve(t, opt, 2)
	opt = abandoned(t, l, opt)

	size, repair := reopen(t, opt)
	if size != 256+2 || strings.Contains(repair, "cut") { // and the repair record
		t.Errorf("%d records, repair %q: want %d and nothing cut", size, repair, 256+2)
	}
	expect.Error(t, expect.Err(os.Stat(filepath.Join(opt.Dir, journalPath(2)))), "a journal that was never begun is left")
	if size, repair := reopen(t, opt); size != 256+2 || repair != "" {
		t.Errorf("after an orderly close: %d records, repair %q", size, repair)
	}
}

// Closing removes the unused journal.
func TestCloseRemovesTheReserve(t *testing.T) { synctest.Test(t, closeRemovesTheReserve) }

func closeRemovesTheReserve(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	opt.Reserve = 4 << 10
	l := open(t, opt)
	record(t, l, 1)
	waitReserve(t, opt, 1)
	closeLog(t, l)
	expect.Len(t, must.Get(os.ReadDir(filepath.Join(opt.Dir, "journal")))(t), 1)
}

// Without disk space for preallocation the log is only slower.
func TestReserveFails(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	opt.Reserve = 4 << 10
	opt.Sync = func(f *os.File) error {
		if strings.HasSuffix(f.Name(), ".tmp") && strings.Contains(f.Name(), "journal") {
			return errors.New("no space left on device")
		}
		return nil
	}
	l := open(t, opt)
	record(t, l, 3*256)
	expect.Equal(t, l.Size(), 3*256)
	closeLog(t, l)
	if size, repair := reopen(t, opt); size != 3*256 || repair != "" {
		t.Errorf("%d records, %q", size, repair)
	}
}
