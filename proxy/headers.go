package proxy

import "net/http"

// entityHeaders describe a body's bytes and are wrong once these change.
var entityHeaders = [...]string{"Content-Length", "Content-Encoding", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Accept-Ranges", "Last-Modified"}

func dropEntityHeaders(h http.Header) {
	for _, name := range entityHeaders {
		delete(h, name)
	}
}
