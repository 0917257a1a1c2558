// Package frontend is the common part of the two listeners, the HTTP proxy and Envoy's
// external processor: the names of their headers, the classification of requests by their
// heads, their own refusals, and side requests to a backend.
//
// A request is treated alike by both listeners. The package itself decides nothing.
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

// memproxy's own headers. Headers from callers and backends that begin with OwnPrefix are
// not forwarded.
const (
	OwnPrefix = "X-Memproxy-"
	// DecisionHeader carries the decision on every answer of a gated request.
	DecisionHeader = OwnPrefix + "Decision"
	// SessionHeader is the caller's name for its session.
	SessionHeader = OwnPrefix + "Session"
	// ContestedHeader lists the ids of contested memories in an answer.
	ContestedHeader = OwnPrefix + "Contested"
	// UnverifiedHeader lists the ids of memories in an answer that differ from what was
	// written through memproxy.
	UnverifiedHeader = OwnPrefix + "Unverified"
	// RewrittenHeader lists the texts of a request that were changed before they were
	// stored, as JSON pointers in the form of URI fragments.
	RewrittenHeader = OwnPrefix + "Rewritten"
)

// maxListed is how many ids or positions a header lists.
const maxListed = 64

// FormatDecision formats a decision for DecisionHeader. It includes the verdict that full
// enforcement would give only if that is stricter, which occurs in shadow mode only. An
// answer that was refused after its request was allowed looks like a refusal of the
// request.
func FormatDecision(d *memproxy.Decision) string {
	text := d.Verdict.String() + "; id=" + d.ID
	if d.ShadowVerdict > d.Verdict {
		text += "; would=" + d.ShadowVerdict.String()
	}
	return text
}

// SetListHeaders sets the headers that list memories of an answer and texts of its request.
func SetListHeaders(a *gate.Admission, set func(name, value string)) {
	var places []string
	for _, ptr := range a.Rewritten {
		places = append(places, (&url.URL{Path: ptr}).EscapedPath()) // escaped, because the client chose the names in it
	}
	for name, list := range map[string][]string{ContestedHeader: a.Contested, UnverifiedHeader: a.Unverified, RewrittenHeader: places} {
		if len(list) > 0 {
			set(name, strings.Join(list[:min(len(list), maxListed)], ", "))
		}
	}
}

// Session returns the caller's session. The header is not forwarded.
func Session(h memproxy.Header) memproxy.SessionName {
	return memproxy.NameSession(h.Get(SessionHeader))
}

// Digests lists the headers that depend on the bytes of a request's body.
var Digests = [...]string{"Content-Md5", "Digest", "Content-Digest"}

// DropDigests removes the Digests of a request whose body was changed.
func DropDigests(h http.Header) {
	for _, name := range Digests {
		delete(h, name)
	}
}

// entityHeaders lists headers that describe an answer's bytes, other than their length.
// They are wrong once the bytes change.
var entityHeaders = [...]string{"Content-Encoding", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Accept-Ranges", "Last-Modified"}

// DropEntityHeaders removes the headers that describe the bytes and the length of an
// answer whose bytes were changed.
func DropEntityHeaders(h http.Header) {
	delete(h, "Content-Length")
	for _, name := range entityHeaders {
		delete(h, name)
	}
}

// SameBytes reports whether two slices share the same memory. The gate returns the slice
// that it was given if it left a body unchanged.
func SameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// TooLarge refuses a body that exceeds the limit, in bytes.
func TooLarge(limit int64) *memproxy.Flaw {
	return &memproxy.Flaw{
		Code: memproxy.PayloadTooLarge, Status: http.StatusRequestEntityTooLarge,
		Detail: "the body exceeds the limit of " + strconv.FormatInt(limit, 10) + " bytes (the backend's limits.body)",
	}
}

// TooSlow refuses a body that did not arrive in time.
func TooSlow() *memproxy.Flaw {
	return &memproxy.Flaw{Code: memproxy.PayloadSlow, Status: http.StatusRequestTimeout, Detail: "the complete body was not received in time"}
}

// BodyFlaw refuses a body that could not be read because it did not arrive in time, because
// its connection ended before, or because its framing (such as its chunks) is invalid.
func BodyFlaw(err error) *memproxy.Flaw {
	var wire *net.OpError
	var timeout interface{ Timeout() bool }
	flaw := &memproxy.Flaw{Code: memproxy.PayloadMalformed, Status: http.StatusBadRequest, Detail: "the body's framing is invalid"}
	switch {
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return TooSlow()
	case errors.As(err, &wire), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled):
		flaw.Code, flaw.Detail = memproxy.PayloadIncomplete, "the connection ended before the complete body was received"
	}
	return flaw
}

// RewriteLocation rewrites a redirect to the upstream so that it leads through the listener,
// which adds the prefix of the upstream's path again. A redirect to another host or scheme
// remains unchanged, unless the request's X-Forwarded-Proto names the scheme: servers build
// their own address with it.
func RewriteLocation(h http.Header, upstream *url.URL, request http.Header) {
	location := h.Get("Location")
	u, err := url.Parse(location)
	if err != nil || location == "" || upstream == nil {
		return
	}
	relative := u.Scheme == "" && u.Host == ""
	if !relative && (!strings.EqualFold(u.Host, upstream.Host) || u.Scheme != "" && u.Scheme != upstream.Scheme && u.Scheme != request.Get("X-Forwarded-Proto")) {
		return
	}
	prefix := strings.TrimSuffix(upstream.EscapedPath(), "/")
	path := u.EscapedPath()
	if rest, within := strings.CutPrefix(path, prefix); within && prefix != "" && (rest == "" || rest[0] == '/') {
		path = rest
	} else if relative {
		return // it resolves against the URL that the client requested
	}
	u.Scheme, u.Host, u.User = "", "", nil
	u.RawPath = "/" + strings.TrimLeft(path, "/") // two slashes would begin a host
	u.Path, _ = url.PathUnescape(u.RawPath)
	h["Location"] = []string{u.String()}
}

// Credential is the backend's key that memproxy sends in place of the client's, so that
// agents never have it.
type Credential struct {
	Header string // "Authorization" or "X-Api-Key"
	Value  string // the whole header value, "Token …"
}

// credentialHeaders lists the headers in which a backend accepts a credential, such as the
// cookie of a session.
var credentialHeaders = [...]string{"Authorization", "Cookie", "X-Api-Key", "X-Bare-Password"}

// Present replaces the client's credential. A nil Credential keeps the client's.
func (c *Credential) Present(h http.Header) {
	if c == nil {
		return
	}
	c.Strip(h)
	h.Set(c.Header, c.Value)
}

// Strip removes the credential of an unidentified caller: if the backend has its own
// credential, callers' credentials are meant for memproxy only. A nil Credential keeps
// the client's, which is then meant for the backend as well.
func (c *Credential) Strip(h http.Header) {
	if c == nil {
		return
	}
	for _, name := range credentialHeaders {
		h.Del(name)
	}
}
