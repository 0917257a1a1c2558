package memproxy

import "sync/atomic"

// A Memo keeps what was found out about a memory from its bytes alone, such as whether
// its stamp is signed. Whoever finds it out decides what that is. It is safe for
// concurrent use; a nil *Memo keeps nothing.
type Memo struct{ found atomic.Value }

// Load returns what was stored last, or nil.
func (m *Memo) Load() any {
	if m == nil {
		return nil
	}
	return m.found.Load()
}

// Store keeps what was found out. It is of one type for all of a process.
func (m *Memo) Store(v any) {
	if m != nil {
		m.found.Store(v)
	}
}
