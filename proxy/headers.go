package proxy

import (
	"net/http"
	"net/textproto"
	"strings"
)

// DecisionHeader carries the decision on every answer of a gated request.
const DecisionHeader = "X-Memproxy-Decision"

// SessionHeader is how a caller names its session.
const SessionHeader = "X-Memproxy-Session"

// ContestedHeader names the memories of an answer that somebody says otherwise
// about, by id, at most maxContested of them.
const ContestedHeader = "X-Memproxy-Contested"

const maxContested = 64

// ownPrefix begins every header that is the proxy's own, in both directions.
const ownPrefix = "X-Memproxy-"

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
		if strings.HasPrefix(name, ownPrefix) {
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
