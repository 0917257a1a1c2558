package extproc

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// request is a request in the gate's terms, with the flaw of its head.
type request struct {
	memproxy.Request
	credentials memproxy.Credentials
	// target is the path and query as the client spelled them; forwarded is the form
	// that was ruled on and is sent.
	target, forwarded string
	flaw              *memproxy.Malformed
}

// describe converts the head of a request to the gate's form. It parses the path as
// net/http does, so that both listeners rule on the same path.
func describe(pseudo map[string]string, h memproxy.Header, peer []string) request {
	scheme := "http"
	for _, s := range [...]string{pseudo[":scheme"], h.Get("X-Forwarded-Proto")} {
		if s == "http" || s == "https" {
			scheme = s
		}
	}
	target := pseudo[":path"]
	r := request{
		Request: memproxy.Request{
			Method: pseudo[":method"], Header: memproxy.Header(frontend.Forwardable(http.Header(h))), Base: scheme + "://" + pseudo[":authority"],
		},
		credentials: memproxy.Credentials{Header: memproxy.Header(frontend.Presented(http.Header(h))), PeerURIs: peer, Host: pseudo[":authority"]},
		target:      target, forwarded: target,
	}
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") || strings.Contains(target, "#") {
		// "*" is OPTIONS for the server; any other target that is not a path is
		// refused.
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
	return r
}

// length returns the announced length of the body, or -1.
func (r *request) length() int64 {
	n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// announced reports whether a body follows, by its length or its transfer encoding.
func (r *request) announced() bool {
	return r.length() > 0 || r.length() < 0 && len(r.credentials.Header["Transfer-Encoding"]) > 0
}
