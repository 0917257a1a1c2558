package frontend

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// Handling is how much of a request is read and ruled on.
type Handling uint8

// The kinds of handling, in decreasing order.
const (
	// Gated requests are read as a whole and ruled on, and so are their answers.
	Gated Handling = iota
	// Passed requests touch no memory: the caller is identified, and the request is
	// ruled on, recorded and streamed both ways.
	Passed
	// Open requests are public, and without a body: the caller is not identified,
	// and nothing is recorded.
	Open
	// Preflight requests are CORS preflights. Neither they nor their answers have a
	// body.
	Preflight
)

// Class is how a request is handled, as determined by its head.
type Class struct {
	// the route's name, for spans and metrics
	Name  string
	Route memproxy.Route
	// Known is set if the adapter has a row for the route.
	Known    bool
	Handling Handling
	// Fields is set if the body must be read before a Passed request is forwarded,
	// because its fields can override the method.
	Fields bool
	// Flaw is set if the method or protocol of the request is not allowed: it is
	// refused and recorded on every route, in shadow mode as well.
	Flaw *memproxy.Malformed
}

// Head is the input of Classify.
type Head struct {
	// Request has the Forwardable headers, Sent all of them.
	memproxy.Request
	Sent memproxy.Header
	// Body is set if a body follows or may follow.
	Body bool
}

// Classify determines how a request is handled, in the same way for both listeners.
func Classify(adapter gate.Adapter, passthrough Patterns, h Head) Class {
	c := Class{Flaw: protocol(h)}
	c.Route, c.Known = adapter.Route(h.Request)
	c.Name = c.Route.ID
	if !c.Known {
		c.Name, c.Route = "unknown", memproxy.Route{Kind: memproxy.Other}
	}
	switch {
	case c.Flaw != nil:
	case preflight(h) && asksOfSomething(adapter, passthrough, h):
		c.Name, c.Handling = "preflight", Preflight
	case c.Known && c.Route.Public && !h.Body:
		c.Handling = Open
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

// Whole reports whether the body is read before the gate rules.
func (c *Class) Whole() bool { return c.Handling == Gated || c.Fields }

// crossing are the methods that routes may have.
var crossing = [...]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// protocol refuses requests outside of the protocol that is ruled on: a method
// without routes, a protocol upgrade, an override of the method in the request
// line.
func protocol(h Head) *memproxy.Malformed {
	if !slices.Contains(crossing[:], h.Method) {
		return barred(http.StatusMethodNotAllowed, "this method does not cross memproxy")
	}
	for _, v := range h.Sent["Upgrade"] {
		for name := range strings.SplitSeq(v, ",") {
			// A server may ignore an offer (RFC 9110, section 7.8), and some clients
			// offer h2c with every first request. The header is not forwarded.
			if name = strings.TrimSpace(name); name != "" && !strings.EqualFold(name, "h2c") {
				return barred(http.StatusBadRequest, "the protocol cannot be changed on this connection")
			}
		}
	}
	for name := range h.Sent {
		if beginsAny(name, commanding[:]) {
			return barred(http.StatusBadRequest, "a header that tells Envoy how often or where to send a request is not accepted")
		}
	}
	for name := range h.Header {
		if overrides(name) && name != "Access-Control-Request-Method" {
			return barred(http.StatusBadRequest, "a header that overrides the method is not accepted")
		}
	}
	if strings.Contains(h.Query, "#") {
		return &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: http.StatusBadRequest, Pointer: "query", Detail: "a # in the request line is not accepted, as some servers end the query there: write %23"}
	}
	_, params, _ := strings.Cut(h.EscapedPath, ";") // parameters of the path's segments
	if queryOverrides(h.Query) || queryOverrides(strings.ReplaceAll(params, "/", "&")) {
		return barred(http.StatusBadRequest, "a parameter that overrides the method is not accepted")
	}
	return nil
}

// commanding are prefixes of the headers by which a client that Envoy counts as
// internal makes its router repeat a request, change its timeouts or send it elsewhere,
// after it was ruled on. An external processor cannot remove them reliably: Envoy
// ignores that unless its configuration allows it (mutation_rules). An Envoy in front
// of the client's own obeys them before it removes them.
var commanding = [...]string{
	"x-envoy-retry-", "x-envoy-retriable-", "x-envoy-max-retries", "x-envoy-hedge-", "x-envoy-upstream-", "x-envoy-original-dst-",
}

func barred(status int, detail string) *memproxy.Malformed {
	return &memproxy.Malformed{Code: memproxy.RouteUnknown, Status: status, Detail: detail}
}

// overrides reports whether frameworks use a header to override the method. Neither
// backend has a header with such a word in it.
func overrides(name string) bool {
	return holds(name, "method") || word(name, "verb", "http-action") || holds(name, "http-verb")
}

// queryOverrides reports whether a query has an overriding parameter, in any
// spelling. Ordinary parameters that merely contain the word are allowed.
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

// unescaped decodes percent-encoding as often as a server might.
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
// document member of this name to override the method, however its words are
// joined.
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
		// Only with a prefix such as "_": "method" alone may be anything.
		return strings.TrimSpace(name[:strings.IndexAny(name, "mM")]) != ""
	case folded == "xmethod", folded == "httpverb", folded == "xverb", folded == "xhttpverb", folded == "httpaction", folded == "xhttpaction":
		return true
	case strings.Contains(folded, "method"):
		return strings.Contains(folded, "override") || strings.Contains(folded, "overriding") || strings.HasSuffix(folded, "httpmethod")
	}
	return strings.Contains(folded, "verboverride")
}

// preflight reports whether a request is a CORS preflight (Fetch standard). It has
// no credential and no content.
func preflight(h Head) bool {
	return h.Method == http.MethodOptions && !h.Body && h.Header.Get("Origin") != "" && h.Header.Get("Access-Control-Request-Method") != ""
}

// asksOfSomething reports whether a preflight is for an existing route.
func asksOfSomething(adapter gate.Adapter, passthrough Patterns, h Head) bool {
	asked := h.Request
	asked.Method = h.Header.Get("Access-Control-Request-Method")
	if protocol(Head{Request: memproxy.Request{Method: asked.Method}}) != nil {
		return false
	}
	_, known := adapter.Route(asked)
	return known || listed(adapter, passthrough, asked)
}

// listed reports whether passthrough has a request. One that is a route of the adapter
// with other slashes does not pass: servers that ignore them take it for that route.
func listed(adapter gate.Adapter, passthrough Patterns, req memproxy.Request) bool {
	_, meant := gate.Meant(adapter, req)
	return !meant && passthrough.Match(req.Method, req.EscapedPath)
}
