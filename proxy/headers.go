package proxy

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/memproxy/memproxy/face"
)

// hopByHop are the headers of one connection (RFC 9110, 7.6.1).
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// copyEndToEnd copies the headers that are meant for the other end, every
// value of each, and leaves out the connection's and the proxy's own.
func copyEndToEnd(dst, src http.Header) {
	var listed []string
	for _, v := range src["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			listed = append(listed, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
next:
	for name, values := range src {
		if strings.HasPrefix(name, face.OwnPrefix) {
			continue
		}
		for _, h := range hopByHop {
			if name == h {
				continue next
			}
		}
		for _, h := range listed {
			if name == h {
				continue next
			}
		}
		dst[name] = values
	}
}

// entityHeaders describe a body's bytes and are wrong once these change.
var entityHeaders = [...]string{"Content-Length", "Content-Encoding", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Accept-Ranges", "Last-Modified"}

func dropEntityHeaders(h http.Header) {
	for _, name := range entityHeaders {
		delete(h, name)
	}
}
