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
