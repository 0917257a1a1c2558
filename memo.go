package memproxy

import "sync/atomic"

// Memo caches what depends on a memory's bytes alone, such as whether its stamp verifies. It
// is safe for concurrent use. A nil Memo caches nothing.
type Memo struct{ found, harmless atomic.Value }

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

// IsHarmless reports whether this screening, a comparable value, found nothing in the memory.
// It is false for nil.
func (m *Memo) IsHarmless(by any) bool { return m != nil && by != nil && m.harmless.Load() == by }

// SetHarmless records that a screening found nothing in the memory. The screenings of all memos
// must have the same type; nil is not recorded.
func (m *Memo) SetHarmless(by any) {
	if m != nil && by != nil {
		m.harmless.Store(by)
	}
}
