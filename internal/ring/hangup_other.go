//go:build !linux

package ring

import (
	"os"
	"syscall"
	"testing"
)

// HangUp sends SIGHUP to the process.
func HangUp(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
