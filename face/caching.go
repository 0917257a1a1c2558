package face

import (
	"net/http"
	"strings"
)

// Uncached has an answer that was made for one caller kept by no cache. It was
// filtered for that caller, or refused to it, whatever the backend says of how
// long it may be kept and by whom.
func Uncached(h http.Header) {
	for name := range h {
		if Caching(name) {
			delete(h, name)
		}
	}
	h["Cache-Control"] = []string{NoStore}
}

// NoStore is what Uncached answers say in Cache-Control (RFC 9111, section
// 5.2.2.5).
const NoStore = "no-store"

// Caching reports whether a header tells caches what to keep, also those that
// only some of them read (CDN-Cache-Control, Surrogate-Control).
func Caching(name string) bool {
	switch strings.ToLower(name) {
	case "age", "expires", "pragma", "x-accel-expires", "surrogate-key", "surrogate-control", "cache-tag":
		return true
	}
	return holds(name, "cache-control")
}
