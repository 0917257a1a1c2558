package audit

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/memproxy/memproxy/internal/durable"
)

// lock locks the directory for one writer. The kernel releases the lock when the
// process ends.
func lock(path string) (*os.File, error) {
	f, err := durable.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("audit: lock: %w", err)
	}
	return f, nil
}
