package frontend

import (
	"net/http"
	"slices"
	"strings"
)

// Uncached marks an answer as not cacheable. It was filtered for one caller, or
// refused to it, whatever the backend says about its caching.
func Uncached(h http.Header) {
	for name := range h {
		if cachingHeader(name) {
			delete(h, name)
		}
	}
	h["Cache-Control"] = []string{NoStore}
}

// NoStore is the Cache-Control of Uncached answers (RFC 9111, section 5.2.2.5).
const NoStore = "no-store"

// cachingHeader reports whether a header controls caches, including vendor headers
// (CDN-Cache-Control, Surrogate-Control).
func cachingHeader(name string) bool {
	is := func(caches string) bool { return strings.EqualFold(name, caches) }
	return slices.ContainsFunc(caching, is) || holds(name, "cache-control")
}

var caching = []string{"age", "expires", "pragma", "x-accel-expires", "surrogate-key", "surrogate-control", "cache-tag"}
