package embedded

// window keeps the newest entries, bounded in number and in bytes. The zero
// value keeps nothing.
type window[T any] struct {
	max, maxBytes int
	entries       []sized[T] // the live ones start at head
	head          int
	bytes         int
}

type sized[T any] struct {
	value T
	bytes int
}

// add appends an entry and returns those that had to go for it.
func (w *window[T]) add(v T, bytes int) (gone []T) {
	if w.max == 0 {
		return nil
	}
	w.entries = append(w.entries, sized[T]{v, bytes})
	w.bytes += bytes
	for w.len() > w.max || w.bytes > w.maxBytes && w.len() > 1 {
		first := &w.entries[w.head]
		gone = append(gone, first.value)
		w.bytes -= first.bytes
		*first = sized[T]{} // let go of it now, not at the next move
		w.head++
	}
	// Moving down only when half is free keeps an add constant on average.
	if w.head > len(w.entries)/2 {
		n := copy(w.entries, w.entries[w.head:])
		clear(w.entries[n:])
		w.entries, w.head = w.entries[:n], 0
	}
	return gone
}

func (w *window[T]) len() int { return len(w.entries) - w.head }

// values returns the entries, oldest first.
func (w *window[T]) values() []T {
	out := make([]T, 0, w.len())
	for _, e := range w.entries[w.head:] {
		out = append(out, e.value)
	}
	return out
}
