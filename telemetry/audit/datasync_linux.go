package audit

import (
	"os"
	"syscall"
)

// datasync makes a file's content durable without its timestamps, which would cost
// another commit of the file system.
func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == syscall.EINTR {
			continue
		}
		return os.NewSyscallError("fdatasync", err)
	}
}
