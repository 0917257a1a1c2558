package audit

import (
	"bytes"
	"os"
	"sync"

	"github.com/memproxy/memproxy/internal/durable"
)

// A commit to a file that does not grow takes the disk about a third less time than an
// append, and does not wait for other work of the file system. So the journal of the
// next bundle is preallocated with zeros while the current one fills.

type reserve struct {
	disk disk
	size int64      // size of a journal; 0 disables the reserve
	wake chan int64 // requested bundles
	stop <-chan struct{}

	mu      sync.Mutex
	begun   int64    // the latest bundle with a journal in use
	ahead   *os.File // a preallocated journal that is not in use yet
	aheadOf int64    // bundle of ahead
}

func (r *reserve) request(n int64) {
	if r.size <= 0 {
		return
	}
	select {
	case r.wake <- n:
	default:
	}
}

func (r *reserve) run() {
	for {
		select {
		case n := <-r.wake:
			_ = r.preallocate(n) // on failure the writer creates the file itself
		case <-r.stop:
			return
		}
	}
}

func (r *reserve) preallocate(n int64) error {
	path := r.disk.path(journalPath(n))
	f, err := durable.Open(path+tempSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	zeros := make([]byte, 64<<10)
	for left := r.size; left > 0 && err == nil; left -= int64(len(zeros)) {
		_, err = f.Write(zeros[:min(left, int64(len(zeros)))])
	}
	if err == nil {
		err = r.disk.sync(f)
	}
	if err == nil {
		err = r.unlessBegun(n, func() error { return os.Rename(path+tempSuffix, path) })
	}
	if err == nil {
		// If a writer needs it before this has finished, it creates the file itself.
		err = r.disk.syncDir(journalDir)
	}
	if err == nil {
		err = r.unlessBegun(n, func() error { r.ahead, r.aheadOf = f, n; return nil })
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path + tempSuffix)
	}
	return err
}

// unlessBegun calls do, unless bundle n has a journal in use or the log is closed.
func (r *reserve) unlessBegun(n int64, do func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stop:
		return ErrClosed
	default:
	}
	if r.begun >= n {
		return ErrClosed
	}
	return do()
}

// take marks bundle n as begun and returns its preallocated journal, if any.
func (r *reserve) take(n int64) *os.File {
	r.mu.Lock()
	defer r.mu.Unlock()
	ahead := r.ahead
	r.begun, r.ahead = n, nil
	if ahead != nil && r.aheadOf != n {
		_ = ahead.Close()
		return nil
	}
	return ahead
}

func (r *reserve) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ahead != nil {
		_ = r.ahead.Close()
		_ = os.Remove(r.disk.path(journalPath(r.aheadOf)))
		r.ahead = nil
	}
}

func blank(b []byte) bool { return len(bytes.TrimRight(b, "\x00")) == 0 }
