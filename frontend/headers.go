package frontend

import (
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Forwardable returns the request headers that are ruled on and forwarded: all except
// hop-by-hop headers and headers that can reroute the request. It includes memproxy's
// own, which CopyRequestHeaders removes.
func Forwardable(h http.Header) http.Header {
	out := make(http.Header, len(h))
	forward(out, h, false)
	return out
}

// IdentityHeaders returns the request headers that may identify the caller: all except
// those that Connection names. An Envoy in front removes these, and the backend never
// receives them, so they must not identify the caller here either. Upgrade, which
// Connection must name, does not identify a caller, and is ruled on.
func IdentityHeaders(h http.Header) http.Header {
	out := h
	for _, name := range connection(h) {
		if _, there := h[name]; !there || name == "Connection" || name == "Upgrade" {
			continue
		}
		if len(out) == len(h) { // copy h at the first removal only
			out = maps.Clone(h)
		}
		delete(out, name)
	}
	return out
}

// CopyRequestHeaders copies the headers that are forwarded to the backend: without
// memproxy's own, and without any copy of a token that the caller presents to memproxy.
func CopyRequestHeaders(dst, src http.Header) {
	forward(dst, src, true)
}

// forward copies the headers of a request, except hop-by-hop and rerouting ones, and
// memproxy's own if withoutOwn is set. It omits credentials for the backend that contain a
// token that src presents to memproxy.
func forward(dst, src http.Header, withoutOwn bool) {
	listed := connection(src)
	for name, values := range src {
		if f := folded(name); !(withoutOwn && isOwnHeader(f)) && !isDropped(name, f, listed) && !rerouting(f) {
			dst[name] = values
		}
	}
	for _, token := range presentedTokens(src) {
		for _, name := range credentialHeaders {
			if slices.ContainsFunc(dst[name], func(v string) bool { return strings.HasSuffix(strings.TrimSpace(v), token) }) {
				delete(dst, name)
			}
		}
	}
}

func presentedTokens(h http.Header) []string {
	var out []string
	for _, name := range [...]string{OwnPrefix + "Token", "Proxy-Authorization"} {
		for _, v := range h[name] {
			if fields := strings.Fields(v); len(fields) > 0 {
				out = append(out, fields[len(fields)-1])
			}
		}
	}
	return out
}

// preflightHeaders lists the request headers of a preflight (the Fetch standard, and
// Private Network Access).
var preflightHeaders = [...]string{"Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers", "Access-Control-Request-Private-Network"}

// PreflightRequest copies the request headers of a CORS preflight: the origin, and the
// method and headers of the later request.
func PreflightRequest(dst, src http.Header) {
	for _, name := range preflightHeaders {
		if values, ok := src[name]; ok {
			dst[name] = values
		}
	}
}

// PreflightResponse copies the response headers of a CORS preflight: what is allowed, and
// how the answer may be cached.
func PreflightResponse(dst, src http.Header) {
	for name, values := range src {
		if strings.HasPrefix(name, "Access-Control-") || name == "Vary" || name == "Allow" {
			dst[name] = values
		}
	}
}

// PreflightStatus returns the status of a preflight's answer. A redirect, or any other
// status that browsers do not accept, becomes a refusal.
func PreflightStatus(status int) int {
	switch {
	case status == http.StatusOK || status == http.StatusNoContent || status >= 400 && status <= 599:
		return status
	case status >= 200 && status <= 299:
		return http.StatusNoContent
	}
	return http.StatusForbidden
}

// connection returns the headers that Connection names, which are hop-by-hop (RFC 9110,
// section 7.6.1).
func connection(h http.Header) []string {
	var listed []string
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				listed = append(listed, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	}
	return listed
}

func isOwnHeader(folded string) bool { return strings.HasPrefix(folded, "x-memproxy-") }

// folded returns a header's name in lower case with a hyphen for every separator, because
// servers map all separators to _, as CGI does.
func folded(name string) string {
	b := []byte(name)
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case (c < '0' || c > '9') && (c < 'a' || c > 'z'):
			b[i] = '-'
		}
	}
	return string(b)
}

// hop lists the hop-by-hop headers, in lower case. Expect is one of them because memproxy
// itself answers with 100.
var hop = [...]string{
	"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "expect",
}

// conditional lists the headers of range and conditional requests, in lower case. The
// backend would cut or compare the unfiltered answer, so a length, a 304 or a 416 would
// reveal memories that are filtered out. Servers may ignore these headers (RFC 9110,
// sections 13.2.1 and 14.2).
var conditional = [...]string{"range", "if-range", "if-none-match", "if-modified-since"}

// isDropped reports whether a header is not forwarded: a hop-by-hop header, a header for a
// part of the unfiltered answer, or a variant spelling of a header that matters for
// security.
func isDropped(name, folded string, listed []string) bool {
	return slices.Contains(hop[:], folded) || slices.Contains(conditional[:], folded) || strings.HasPrefix(folded, "proxy-") ||
		slices.Contains(listed, name) || isVariantSpelling(name, folded)
}

// criticalHeaders lists headers that identify the caller or describe the body, and
// criticalPrefixes prefixes of such headers, in lower case. Variant spellings of them are
// not forwarded.
var (
	criticalHeaders  = [...]string{"authorization", "cookie", "host", "origin", "x-api-key", "x-bare-password", "accept-encoding"}
	criticalPrefixes = [...]string{"content-", "x-letta-", "x-project", "x-forwarded-", "mem0-"}
)

// isVariantSpelling reports whether a name with a separator other than a hyphen could be
// read as one of these headers. The gate neither identifies the caller by such a second
// spelling nor rules on it.
func isVariantSpelling(name, folded string) bool {
	return strings.Count(name, "-") != strings.Count(folded, "-") && (slices.Contains(criticalHeaders[:], folded) || hasAnyPrefix(folded, criticalPrefixes[:]))
}

// targets lists words, in lower case, in the names of headers with which servers, and
// hops behind memproxy, replace the target of a request or redirect it internally,
// bypassing the ruling. No header of either backend contains one.
var targets = [...]string{"url", "uri", "path", "script-name", "accel", "sendfile", "rewrite"}

// rerouting reports whether a header may replace the path.
func rerouting(folded string) bool {
	return containsWord(folded, targets[:]...) || strings.HasPrefix(folded, "x-forwarded-prefix") || folded == "destination"
}

func containsWord(folded string, words ...string) bool {
	for rest, more := folded, true; more; _, rest, more = strings.Cut(rest, "-") {
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(rest, w) && (len(rest) == len(w) || rest[len(w)] == '-') }) {
			return true
		}
	}
	return false
}

func hasAnyPrefix(folded string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(folded, p) })
}
