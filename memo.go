package memproxy

import "sync/atomic"

// Memo caches a value that depends on a memory's bytes alone, such as whether its stamp
// verifies. It is safe for concurrent use. A nil Memo caches nothing.
type Memo struct{ found atomic.Value }

// Load returns the last stored value, or nil.
func (m *Memo) Load() any {
	if m == nil {
		return nil
	}
	return m.found.Load()
}

// Store caches a value. The values of all memos must have the same type (atomic.Value).
func (m *Memo) Store(v any) {
	if m != nil {
		m.found.Store(v)
	}
}
