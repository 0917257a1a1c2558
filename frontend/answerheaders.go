package frontend

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
)

// claimedHeaders lists the headers of answers that are returned to clients, in lower
// case. Every other header is unclaimed. The list has headers for
//
//   - the type and length of the body, which are dropped if the body changes;
//   - caching;
//   - retries by clients;
//   - support requests: the backend's ids of the request;
//   - what a browser may do with the answer.
//
// Some headers of backends are left out on purpose: Set-Cookie, because the session
// belongs to the credential that memproxy presents; Link and X-Total-Count, which are
// computed from unfiltered memories or bypass memproxy; ETag and Last-Modified, which
// reveal changes that the caller cannot see; Content-Location and Refresh, which lead
// elsewhere; Server-Timing, which reveals how much was searched; Accept-Ranges and
// Content-Range, because memproxy never requests a part of an answer.
var (
	claimedHeaders = [...]string{
		"content-type", "content-length", "content-encoding", "content-language", "content-disposition",
		"content-md5", "digest", "content-digest", "repr-digest",
		"date", "age", "cache-control", "expires", "pragma", "vary",
		"allow", "location", "www-authenticate", "retry-after", "retry-after-ms", "x-should-retry", "deprecation", "sunset",
		"x-request-id", "request-id", "x-correlation-id", "x-trace-id", "traceparent", "cf-ray",
		"x-accel-buffering", "x-upload-result",
		"content-security-policy", "referrer-policy", "x-content-type-options", "x-frame-options",
	}
	claimedPrefixes = [...]string{"access-control-"}
	// usagePrefixes are claimed if every client has a backend key of its own: they count
	// what was requested with the key.
	usagePrefixes = [...]string{"ratelimit", "x-ratelimit-"}
)

// idHeaders lists the headers that have an id of the request or the time of a retry. A
// value that reads like a sentence is neither, and is dropped.
var idHeaders = [...]string{
	"retry-after", "retry-after-ms", "x-should-retry", "x-request-id", "request-id", "x-correlation-id", "x-trace-id", "traceparent", "cf-ray", "x-upload-result",
}

// parameterHeaders lists the headers that have names with parameters, which may be a
// file's name or a backend's explanation. Sentences in them are dropped.
var parameterHeaders = [...]string{"content-disposition", "content-language", "www-authenticate"}

// unreported lists headers that every server sends and that clients do not need. They are
// dropped without a report.
var unreported = [...]string{
	"server", "x-envoy-upstream-service-time", "etag", "last-modified", "accept-ranges", "alt-svc", "via", "x-powered-by", "server-timing", "nel", "report-to", "strict-transport-security",
}

// maxHeaderValue is the maximum length of a header's value, in bytes.
const maxHeaderValue = 1024

// CopyResponseHeaders copies the headers of an answer to the client's answer. others
// reports, by their names, whether the unclaimed headers are returned to the client; if it
// is nil, they are dropped. Headers about rate limits are claimed only if c is nil: all
// clients share a credential, so its usage shows what others requested.
func (c *Credential) CopyResponseHeaders(dst, src http.Header, others func(names []string) (pass bool)) {
	listed := connection(src)
	var rest, told []string
	for name, values := range src {
		f := folded(name)
		switch {
		// Alt-Svc would lead clients around memproxy to the backend.
		case isOwnHeader(f), isDropped(name, f, listed), name == "Alt-Svc":
		case isClaimed(name, f, values), c == nil && hasAnyPrefix(f, usagePrefixes[:]) && isPlain(f, values):
			dst[name] = values
		default:
			rest = append(rest, name)
			if !slices.Contains(unreported[:], f) {
				told = append(told, name)
			}
		}
	}
	if len(rest) == 0 || others == nil {
		return
	}
	slices.Sort(told)
	if others(told) {
		for _, name := range rest {
			dst[name] = src[name]
		}
	}
}

func isClaimed(name, folded string, values []string) bool {
	if strings.IndexByte(name, '_') >= 0 || !slices.Contains(claimedHeaders[:], folded) && !hasAnyPrefix(folded, claimedPrefixes[:]) {
		return false
	}
	if name == "Location" {
		return len(values) == 1 && backend.LeadsBack(values[0])
	}
	return isPlain(folded, values)
}

// isPlain reports whether the values have the form that the header's name implies.
func isPlain(folded string, values []string) bool {
	form := func(string) bool { return true }
	if slices.Contains(idHeaders[:], folded) {
		form = plainValue
	} else if slices.Contains(parameterHeaders[:], folded) {
		form = plainParameters
	}
	return !slices.ContainsFunc(values, func(v string) bool { return len(v) > maxHeaderValue || !form(v) })
}

// plainParameters reports whether a value consists of plain names, at most two between
// separators.
func plainParameters(v string) bool {
	for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return strings.ContainsRune(`;,="'`, r) }) {
		words := strings.Fields(part)
		if len(words) > 2 || slices.ContainsFunc(words, func(w string) bool { return !plainValue(w) }) {
			return false
		}
	}
	return true
}

func plainValue(v string) bool {
	_, err := http.ParseTime(v)
	return err == nil || memproxy.Inert(v) == v
}

// DisableCaching marks an answer as not cacheable, whatever the backend says: it was
// filtered for one caller, or is a refusal to that caller.
func DisableCaching(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		f := folded(name)
		return strings.Contains(f, "cache-control") || slices.Contains(caching[:], f)
	})
	h["Cache-Control"] = []string{NoStore}
}

// NoStore is the Cache-Control that DisableCaching sets (RFC 9111, section 5.2.2.5).
const NoStore = "no-store"

// caching lists the headers that control caches, other than those with Cache-Control in
// their names (CDN-Cache-Control).
var caching = [...]string{
	"age", "expires", "pragma", "x-accel-expires", "surrogate-key", "surrogate-control", "cache-tag",
}
