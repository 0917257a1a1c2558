package proxy

import (
	"context"
	"net/http"

	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
)

// entityHeaders describe a body's bytes and are wrong once these change.
var entityHeaders = [...]string{"Content-Length", "Content-Encoding", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Accept-Ranges", "Last-Modified"}

func dropEntityHeaders(h http.Header) {
	for _, name := range entityHeaders {
		delete(h, name)
	}
}

// back copies the headers of the backend's answer that the client is sent. A is
// nil for a public route.
func (p *Proxy) back(dst, src http.Header, a *gate.Admission) {
	face.Back(dst, src, func(names []string) bool {
		return p.opt.Gate.Headers(context.Background(), a, p.opt.Name, names)
	})
}
