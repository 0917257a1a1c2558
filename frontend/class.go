package frontend

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
)

// Handling is how much of a request is read and ruled on.
type Handling uint8

// The kinds of handling, from the most thorough to the least.
const (
	// Gated requests are read as a whole and ruled on, and so are their answers.
	Gated Handling = iota
	// Passed requests access no memory. The caller is identified, and the request is
	// ruled on, recorded and streamed in both directions.
	Passed
	// Public requests are for public routes and have no body. The caller is not identified,
	// and nothing is recorded.
	Public
	// Preflight requests are CORS preflights. The request and the answer have no body.
	Preflight
)

// Class is how a request is handled, as determined by its head.
type Class struct {
	// Name is the name of the route for spans and metrics.
	Name  string
	Route memproxy.Route
	// Known is set if the adapter has a row for the route.
	Known    bool
	Handling Handling
	// Fields is set if the body of a Passed request must be read before it is forwarded,
	// because its fields can override the method.
	Fields bool
	// Flaw is set if the method or protocol of the request is not allowed. The request is
	// then refused and recorded on every route, in shadow mode as well.
	Flaw *memproxy.Flaw
}

// Head is the input of Classify.
type Head struct {
	// Request has the Forwardable headers only; Sent has all of them.
	memproxy.Request
	Sent memproxy.Header
	// Body is set if a body follows or may follow.
	Body bool
}

// Classify determines how a request is handled, in the same way for both listeners.
func Classify(adapter backend.Adapter, passthrough Patterns, h Head) Class {
	c := Class{Flaw: protocol(h)}
	c.Route, c.Known = adapter.Route(h.Request)
	c.Name = c.Route.ID
	if !c.Known {
		c.Name, c.Route = "unknown", memproxy.Route{Kind: memproxy.Other}
	}
	switch {
	case c.Flaw != nil:
	case preflight(h) && isForKnownRoute(adapter, passthrough, h):
		c.Name, c.Handling = "preflight", Preflight
	case c.Known && c.Route.Public && !h.Body:
		c.Handling = Public
	case c.Known && c.Route.Pass:
		c.Handling = Passed
	case !c.Known && listed(adapter, passthrough, h.Request):
		c.Name, c.Handling = "passthrough", Passed
		c.Route.ID = c.Name
	}
	if c.Flaw == nil && c.Known && c.Route.Pass && h.Body && (h.Method == http.MethodGet || h.Method == http.MethodHead) {
		c.Flaw, c.Handling = barred(http.StatusBadRequest, "this route takes no body"), Gated
	}
	if c.Fields = c.Handling == Passed && h.Body && HasFields(h.Header); c.Fields && c.Flaw == nil {
		c.Flaw = encoded(h.Header)
	}
	return c
}

// Ruled reports whether the gate rules on the request.
func (c *Class) Ruled() bool { return c.Handling == Gated || c.Handling == Passed }

// ReadsBody reports whether the body is read before the gate rules.
func (c *Class) ReadsBody() bool { return c.Handling == Gated || c.Fields }

// routeMethods lists the methods that routes may have.
var routeMethods = [...]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// protocol refuses requests that a server could understand differently from the gate: a
// method without routes, a protocol upgrade, headers that control Envoy, a method override,
// or a fragment in the request line.
func protocol(h Head) *memproxy.Flaw {
	if !slices.Contains(routeMethods[:], h.Method) {
		return barred(http.StatusMethodNotAllowed, "memproxy does not support this method")
	}
	for _, v := range h.Sent["Upgrade"] {
		for name := range strings.SplitSeq(v, ",") {
			// A server may ignore an offer (RFC 9110, section 7.8), and some clients
			// offer h2c in every first request. The header is not forwarded.
			if name = strings.TrimSpace(name); name != "" && !strings.EqualFold(name, "h2c") {
				return barred(http.StatusBadRequest, "protocol upgrades are not supported")
			}
		}
	}
	for name := range h.Sent {
		if hasAnyPrefix(folded(name), envoyControl[:]) {
			return barred(http.StatusBadRequest, "headers that control Envoy's retries or routing are not accepted")
		}
	}
	for name := range h.Header {
		if overrides(folded(name)) && name != "Access-Control-Request-Method" {
			return barred(http.StatusBadRequest, "method override headers are not accepted")
		}
	}
	if strings.Contains(h.Query, "#") {
		return &memproxy.Flaw{Code: memproxy.PayloadMalformed, Status: http.StatusBadRequest, Pointer: "query", Detail: "a # in the request line is not accepted, because some servers end the query there; encode it as %23"}
	}
	_, params, _ := strings.Cut(h.EscapedPath, ";") // parameters of path segments
	if queryOverrides(h.Query) || queryOverrides(strings.ReplaceAll(params, "/", "&")) {
		return barred(http.StatusBadRequest, "method override query parameters are not accepted")
	}
	return nil
}

// envoyControl lists prefixes of headers with which a client that Envoy considers
// internal can make Envoy's router repeat a request, change its timeouts or send it
// elsewhere, after it was ruled on. An external processor cannot remove these headers
// reliably: Envoy ignores the removal unless its configuration allows it
// (mutation_rules). Another Envoy in front obeys them before it removes them.
var envoyControl = [...]string{
	"x-envoy-retry-", "x-envoy-retriable-", "x-envoy-max-retries", "x-envoy-hedge-", "x-envoy-upstream-", "x-envoy-original-dst-",
}

func barred(status int, detail string) *memproxy.Flaw {
	return &memproxy.Flaw{Code: memproxy.RouteUnknown, Status: status, Detail: detail}
}

// overrides reports whether frameworks use a header to override the method. Neither
// backend has a header that contains such a word.
func overrides(folded string) bool {
	return strings.Contains(folded, "method") || containsWord(folded, "verb", "http-action") || strings.Contains(folded, "http-verb")
}

// queryOverrides reports whether a query has a parameter that overrides the method, in
// any spelling. Ordinary parameters that merely contain the word are allowed.
func queryOverrides(query string) bool {
	if query == "" {
		return false
	}
	for part := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(part, "=")
		if OverridingField(unescaped(name)) {
			return true
		}
	}
	return false
}

// unescaped decodes percent-encoding as many times as a server might.
func unescaped(name string) string {
	for range 3 {
		next, err := url.QueryUnescape(name)
		if err != nil || next == name {
			break
		}
		name = next
	}
	return name
}

// OverridingField reports whether frameworks use a query parameter, form field or
// document member of this name to override the method, however its words are joined.
func OverridingField(name string) bool {
	folded := strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case c >= 'a' && c <= 'z':
			return c
		}
		return -1
	}, name)
	switch {
	case folded == "method":
		// Only with a prefix such as "_": a field called just "method" can have any
		// meaning.
		return strings.TrimSpace(name[:strings.IndexAny(name, "mM")]) != ""
	case folded == "xmethod", folded == "httpverb", folded == "xverb", folded == "xhttpverb", folded == "httpaction", folded == "xhttpaction":
		return true
	case strings.Contains(folded, "method"):
		return strings.Contains(folded, "override") || strings.Contains(folded, "overriding") || strings.HasSuffix(folded, "httpmethod")
	}
	return strings.Contains(folded, "verboverride")
}

// preflight reports whether a request is a CORS preflight (Fetch standard), which has no
// credentials and no body.
func preflight(h Head) bool {
	return h.Method == http.MethodOptions && !h.Body && h.Header.Get("Origin") != "" && h.Header.Get("Access-Control-Request-Method") != ""
}

// isForKnownRoute reports whether a preflight is for an existing route.
func isForKnownRoute(adapter backend.Adapter, passthrough Patterns, h Head) bool {
	asked := h.Request
	asked.Method = h.Header.Get("Access-Control-Request-Method")
	if protocol(Head{Request: memproxy.Request{Method: asked.Method}}) != nil {
		return false
	}
	_, known := adapter.Route(asked)
	return known || listed(adapter, passthrough, asked)
}

// listed reports whether the passthrough entries match a request. A path that differs
// from a route of the adapter in its slashes only is never matched, because servers that
// ignore such slashes would serve that route.
func listed(adapter backend.Adapter, passthrough Patterns, req memproxy.Request) bool {
	_, meant := backend.NormalizedRoute(adapter, req)
	return !meant && passthrough.Match(req.Method, req.EscapedPath)
}
