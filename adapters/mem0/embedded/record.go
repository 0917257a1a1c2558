package embedded

import "slices"

// asked is one line of the server's own log of requests.
type asked struct {
	Method string `json:"method"`
	Path   string `json:"path"`
}

// window keeps the newest entries, bounded in number and in bytes. The zero
// value keeps nothing.
type window[T any] struct {
	max, maxBytes int
	entries       []sized[T] // the oldest first
	bytes         int
}

type sized[T any] struct {
	value T
	bytes int
}

// newest is a window of so many entries of any size, each added as one byte.
func newest[T any](n int) window[T] { return window[T]{max: n, maxBytes: n} }

// add appends an entry and returns those that had to go for it.
func (w *window[T]) add(v T, bytes int) (gone []T) {
	w.entries = append(w.entries, sized[T]{v, bytes})
	w.bytes += bytes
	for len(w.entries) > w.max || w.bytes > w.maxBytes && len(w.entries) > 1 {
		gone = append(gone, w.entries[0].value)
		w.bytes -= w.entries[0].bytes
		w.entries = slices.Delete(w.entries, 0, 1)
	}
	return gone
}

// values returns the entries, oldest first.
func (w *window[T]) values() []T {
	out := make([]T, len(w.entries))
	for i, e := range w.entries {
		out[i] = e.value
	}
	return out
}
