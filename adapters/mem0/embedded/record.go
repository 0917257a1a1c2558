package embedded

import (
	"net/http"
	"time"
)

// Request is one request as it arrived.
type Request struct {
	At     time.Time
	Method string
	// RequestURI is the request target as it was on the wire, undecoded.
	RequestURI string
	Host       string
	// Header holds the fields that came, a list per name. The order between
	// names is not kept: net/http does not tell it.
	Header http.Header
	// Body is what was read; of a body over the limit it is the part within.
	Body []byte
}

// Requests returns the newest requests, oldest first, at most
// Options.MaxRequests and some megabytes of them.
func (b *Backend) Requests() []Request {
	b.recordMu.Lock()
	defer b.recordMu.Unlock()
	return b.record.values()
}

// ForgetRequests empties what Requests returns.
func (b *Backend) ForgetRequests() {
	b.recordMu.Lock()
	defer b.recordMu.Unlock()
	b.record = window[Request]{max: b.record.max, maxBytes: b.record.maxBytes}
}

func (b *Backend) remember(r *http.Request, body []byte) {
	entry := Request{
		At: b.opt.Clock(), Method: r.Method, RequestURI: r.RequestURI, Host: r.Host,
		Header: r.Header.Clone(), Body: body,
	}
	b.recordMu.Lock()
	defer b.recordMu.Unlock()
	// Headers are bounded by the server; a flat allowance will do.
	b.record.add(entry, len(body)+1024)
}

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
