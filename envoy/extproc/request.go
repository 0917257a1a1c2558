package extproc

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
)

// request is a request in the gate's terms, with what was wrong about its head.
type request struct {
	memproxy.Request
	credentials memproxy.Credentials
	// target is the path with its query as the client spelled them, forwarded
	// as they are to be sent on: spelled as they were ruled on.
	target, forwarded string
	flaw              *memproxy.Malformed
}

// describe puts the head of a request into the gate's terms. The path is read
// as net/http reads it, so that both faces rule on the same thing.
func describe(pseudo map[string]string, h memproxy.Header, peer []string) request {
	scheme := "http"
	for _, s := range [...]string{pseudo[":scheme"], h.Get("X-Forwarded-Proto")} {
		if s == "http" || s == "https" {
			scheme = s
		}
	}
	target := pseudo[":path"]
	r := request{
		Request:     memproxy.Request{Method: pseudo[":method"], Header: h, Base: scheme + "://" + pseudo[":authority"]},
		credentials: memproxy.Credentials{Header: h, PeerURIs: peer},
		target:      target, forwarded: target,
	}
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") || strings.Contains(target, "#") {
		// "*" is OPTIONS about the server; whatever else is not a path is not guessed at.
		r.EscapedPath = target
		if target != "*" || r.Method != http.MethodOptions {
			r.flaw = &memproxy.Malformed{Code: memproxy.PayloadPath, Status: http.StatusBadRequest, Detail: "the path cannot be read"}
		}
		return r
	}
	r.Path, r.EscapedPath, r.Query = u.Path, u.EscapedPath(), u.RawQuery
	r.forwarded = r.EscapedPath
	if u.RawQuery != "" || u.ForceQuery {
		r.forwarded += "?" + u.RawQuery
	}
	r.flaw = overridden(h)
	return r
}

// overridden refuses headers by which some frameworks take a request for one
// of another method: it would be ruled on as what it is not.
func overridden(h memproxy.Header) *memproxy.Malformed {
	for _, name := range [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		if len(h[name]) > 0 {
			return &memproxy.Malformed{Code: memproxy.RouteUnknown, Status: http.StatusBadRequest, Detail: "a header that overrides the method is not accepted"}
		}
	}
	return nil
}

// preflight reports whether a browser asks what it may send (the Fetch
// standard's CORS preflight). It carries no credential and no content.
func (r *request) preflight() bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// session is the caller's session as it names it, bounded.
func (r *request) session() string {
	s := r.Header.Get(sessionHeader)
	return s[:min(len(s), 128)]
}

// length is the body's length as announced, or -1.
func (r *request) length() int64 {
	n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (b *Backend) passthrough(method, escapedPath string) bool {
	if !plain(escapedPath) {
		return false
	}
	for _, pt := range b.patterns {
		if pt.matches(method, escapedPath) {
			return true
		}
	}
	return false
}

func tooLarge(limit int64) *memproxy.Malformed {
	return &memproxy.Malformed{
		Code: memproxy.PayloadTooLarge, Status: http.StatusRequestEntityTooLarge,
		Detail: "the body is over the limit of " + strconv.FormatInt(limit, 10) + " bytes",
	}
}

func tooSlow() *memproxy.Malformed {
	return &memproxy.Malformed{Code: memproxy.PayloadSlow, Status: http.StatusRequestTimeout, Detail: "the body did not arrive whole and in time"}
}

// relocated leads a redirect to the upstream back through Envoy.
func (b *Backend) relocated(location string) (string, bool) {
	u, err := url.Parse(location)
	if err != nil || location == "" || b.Upstream == nil || !strings.EqualFold(u.Host, b.Upstream.Host) {
		return "", false
	}
	// A relative reference resolves against what the client asked.
	u.Scheme, u.Host, u.User = "", "", nil
	if prefix := strings.TrimSuffix(b.Upstream.Path, "/"); prefix != "" {
		u.Path, u.RawPath = strings.TrimPrefix(u.Path, prefix), ""
	}
	return u.String(), true
}
