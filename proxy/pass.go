package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/memproxy/memproxy/face"
)

// onward returns a request to the backend, without its body.
func onward(upstream *url.URL, r *http.Request, query string, plain bool) *http.Request {
	out := &http.Request{Method: r.Method, URL: target(upstream, r.URL, query), Header: make(http.Header, len(r.Header)+2)}
	face.Onward(out.Header, r.Header)
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		// The transport would send such a request again if its connection breaks. It
		// looks for the name in canonical form only.
		if values, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = values
		}
	}
	if _, ok := r.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // or the transport adds one
	}
	if plain {
		out.Header["Accept-Encoding"] = []string{"identity"}
	}
	return out
}
