package proxy

import (
	"net/http"
	"net/url"

	"github.com/memproxy/memproxy/face"
)

// target is the upstream URL of a request: the same path, spelled the same
// way, behind the upstream's own prefix.
func (p *Proxy) target(in *url.URL, query string) *url.URL {
	return face.Join(p.opt.Upstream, in.Path, in.EscapedPath(), query, in.ForceQuery)
}

// relocate leads a redirect to the upstream back through the proxy.
func (p *Proxy) relocate(resp *http.Response) {
	if to, ok := face.Relocated(resp.Header.Get("Location"), p.opt.Upstream); ok {
		resp.Header.Set("Location", to)
	}
}
