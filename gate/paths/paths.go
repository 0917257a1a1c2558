// Package paths says whether servers agree on the meaning of a request's path. The gate
// rules on the path that it reads; the backend may decode or normalise it once more.
package paths

import (
	"net/url"
	"strings"
)

const slashes = "two slashes in a row"

// Flaw returns why servers may read a path as another one, in words that follow "the path
// has"; "" if it has a single interpretation. Percent-encoding counts, although the routes
// of adapters take it in ids.
func Flaw(escaped string) string {
	if !strings.HasPrefix(escaped, "/") {
		return "no slash at its start"
	}
	if strings.ContainsAny(escaped, "\\;") {
		return "a backslash or a semicolon"
	}
	segments, empty := strings.Split(escaped[1:], "/"), false
	for i, s := range segments {
		if text, err := url.PathUnescape(s); err == nil && (text == "." || text == "..") {
			return "a segment that is a dot or two"
		}
		empty = empty || s == "" && i < len(segments)-1
	}
	switch {
	case strings.Contains(escaped, "%"):
		return "percent-encoded characters"
	case empty:
		return slashes
	}
	return ""
}

// Segmented reports whether a server that decodes a path before it routes, as WSGI and ASGI
// servers do, finds the segments that the path has.
func Segmented(escaped string) bool {
	for segment := range strings.SplitSeq(escaped, "/") {
		text, err := url.PathUnescape(segment)
		if err != nil || text == "." || text == ".." || strings.ContainsAny(text, `/\`) {
			return false
		}
	}
	return true
}

// Hint says how to repeat a request to a path without a route. match reports whether a path has
// one if its slashes do not matter. The hint does not quote the path, because records have no
// paths.
func Hint(escaped string, match func(path string) bool) string {
	if match(escaped) {
		return "it knows the path with different slashes: check for missing or extra slashes in the path and the base URL"
	}
	flaw := Flaw(escaped)
	if _, rest, _ := strings.Cut(strings.TrimLeft(escaped, "/"), "/"); rest != "" && (flaw == "" || flaw == slashes) {
		if match(rest) {
			return "it knows the path without its first segment: the base URL must have no path"
		}
	}
	if flaw != "" {
		return "the path has " + flaw + ", which servers may read differently, so passthrough does not let it through either: send it in its plain form"
	}
	return "list it as passthrough if it touches no memory"
}
