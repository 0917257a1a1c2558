// Package frontend has what the two front ends share, the HTTP proxy and Envoy's external
// processor: the names of their headers, the classification of a request by its head,
// their own refusals, and side requests to a backend.
//
// A request has the same meaning at both. The package decides nothing.
package frontend

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// memproxy's own headers. Headers with OwnPrefix from callers and backends are not
// forwarded.
const (
	OwnPrefix = "X-Memproxy-"
	// DecisionHeader carries the decision on every answer of a gated request.
	DecisionHeader = OwnPrefix + "Decision"
	// SessionHeader is the caller's name of its session.
	SessionHeader = OwnPrefix + "Session"
	// ContestedHeader names the contested memories of an answer, by id.
	ContestedHeader = OwnPrefix + "Contested"
	// UnverifiedHeader names the memories of an answer, by id, that differ from what
	// was written through memproxy.
	UnverifiedHeader = OwnPrefix + "Unverified"
	// RewrittenHeader names the texts of a request that were changed before they were
	// written, by JSON Pointers in the form of URI fragments.
	RewrittenHeader = OwnPrefix + "Rewritten"
)

// Bounds of headers.
const maxListed = 64 // ids or places

// Decision formats a decision for DecisionHeader. Only a stricter verdict than the one
// given is told, which is shadow mode's: an answer that was refused after its request was
// allowed is like one whose request was refused.
func Decision(d *memproxy.Decision) string {
	var b strings.Builder
	b.Grow(64)
	b.WriteString(d.Verdict.String())
	b.WriteString("; id=")
	b.WriteString(d.ID)
	if d.Would > d.Verdict {
		b.WriteString("; would=")
		b.WriteString(d.Would.String())
	}
	return b.String()
}

// Listed sets the headers that name memories of an answer and texts of its
// request.
func Listed(a *gate.Admission, set func(name, value string)) {
	var places []string
	for _, ptr := range a.Rewritten {
		places = append(places, (&url.URL{Path: ptr}).EscapedPath()) // it contains names that the client chose
	}
	for name, list := range map[string][]string{ContestedHeader: a.Contested, UnverifiedHeader: a.Unverified, RewrittenHeader: places} {
		if len(list) > 0 {
			set(name, strings.Join(list[:min(len(list), maxListed)], ", "))
		}
	}
}

// Session is the caller's session. The header is not forwarded.
func Session(h memproxy.Header) memproxy.SessionName {
	return memproxy.NameSession(h.Get(SessionHeader))
}

// Digests are the headers that depend on a request's bytes.
var Digests = [...]string{"Content-Md5", "Digest", "Content-Digest"}

// DropDigests removes the Digests of a request whose body was changed.
func DropDigests(h http.Header) {
	for _, name := range Digests {
		delete(h, name)
	}
}

// entityHeaders describe an answer's bytes, other than their number, and are wrong
// once these change.
var entityHeaders = [...]string{"Content-Encoding", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Accept-Ranges", "Last-Modified"}

// DropEntityHeaders removes the headers that describe the bytes and the length of an answer whose
// bytes have changed.
func DropEntityHeaders(h http.Header) {
	delete(h, "Content-Length")
	for _, name := range entityHeaders {
		delete(h, name)
	}
}

// SameBytes reports whether two slices are identical, and so whether the gate left
// a body unchanged: it then returns the slice that it was given.
func SameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// TooLarge refuses a body over the limit, in bytes.
func TooLarge(limit int64) *memproxy.Malformed {
	return &memproxy.Malformed{
		Code: memproxy.PayloadTooLarge, Status: http.StatusRequestEntityTooLarge,
		Detail: "the body is over the limit of " + strconv.FormatInt(limit, 10) + " bytes that limits.body of the backend sets",
	}
}

// TooSlow refuses a body that did not arrive in time.
func TooSlow() *memproxy.Malformed {
	return &memproxy.Malformed{Code: memproxy.PayloadSlow, Status: http.StatusRequestTimeout, Detail: "the body did not arrive whole and in time"}
}

// Unread refuses a body that could not be read: because it did not arrive in time,
// or because its framing is broken, such as invalid chunks.
func Unread(err error) *memproxy.Malformed {
	var wire *net.OpError
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() || errors.As(err, &wire) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) {
		return TooSlow()
	}
	return &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: http.StatusBadRequest, Detail: "the body's framing cannot be read"}
}

// Relocate makes a redirect to the upstream lead through the listener. One that leads
// elsewhere is unchanged.
func Relocate(h http.Header, upstream *url.URL) {
	location := h.Get("Location")
	u, err := url.Parse(location)
	if err != nil || location == "" || upstream == nil || !strings.EqualFold(u.Host, upstream.Host) {
		return
	}
	// A relative reference resolves against the URL that the client requested.
	u.Scheme, u.Host, u.User = "", "", nil
	if prefix := strings.TrimSuffix(upstream.Path, "/"); prefix != "" {
		u.Path, u.RawPath = strings.TrimPrefix(u.Path, prefix), ""
	}
	h["Location"] = []string{u.String()}
}

// Credential is the backend key that memproxy presents instead of the
// client's, so that agents never hold it.
type Credential struct {
	Header string // "Authorization" or "X-Api-Key"
	Value  string // whole header value, "Token …"
}

// credentialHeaders are the headers in which a backend takes a credential.
var credentialHeaders = [...]string{"Authorization", "X-Api-Key", "X-Bare-Password"}

// Present replaces the client's credential. If c is nil, the client's is kept.
func (c *Credential) Present(h http.Header) {
	if c == nil {
		return
	}
	c.Conceal(h)
	h.Set(c.Header, c.Value)
}

// Conceal removes the client's credential for a caller that is not identified: if
// the backend has a credential of its own, callers' credentials are meant for
// memproxy alone. Nil keeps the client's credential, which is then the backend's as
// well.
func (c *Credential) Conceal(h http.Header) {
	if c == nil {
		return
	}
	for _, name := range credentialHeaders {
		h.Del(name)
	}
}
