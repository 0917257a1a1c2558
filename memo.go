package memproxy

import "sync/atomic"

// A Memo caches what follows from a memory's bytes alone, such as whether its stamp
// verifies. The caller decides what that is. It is safe for concurrent use; a nil
// *Memo caches nothing.
type Memo struct{ found atomic.Value }

// Load returns the value that was stored last, or nil.
func (m *Memo) Load() any {
	if m == nil {
		return nil
	}
	return m.found.Load()
}

// Store caches a value. Its type must be the same throughout the process.
func (m *Memo) Store(v any) {
	if m != nil {
		m.found.Store(v)
	}
}
