package proxy

import (
	"net/http"
	"strings"
)

// onward returns a request to the backend with these headers, without its body.
func (p *Proxy) onward(r *http.Request, query string, h http.Header) *http.Request {
	out := &http.Request{Method: r.Method, URL: target(p.opt.Upstream, r.URL, query), Header: h}
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
	return out
}
