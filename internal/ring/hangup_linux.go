package ring

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// HangUp sends SIGHUP to the calling thread, which handles it before HangUp returns. One
// that is sent to the process may be handled by another thread, when the code under test
// no longer asks for it.
func HangUp(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
