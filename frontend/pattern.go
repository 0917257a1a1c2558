package frontend

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/paths"
)

// Patterns are passthrough entries: routes that the adapter does not know and that access
// no memory.
type Patterns []pattern

// ParsePatterns parses entries "METHOD /path/*".
func ParsePatterns(entries []string) (Patterns, error) {
	var out Patterns
	for _, s := range entries {
		p, err := parsePattern(s)
		if err != nil {
			return nil, fmt.Errorf("passthrough %q: %w", s, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// Match reports whether a request matches an entry. An ambiguous path, such as
// "/custom/..%2Fv1", matches none.
func (ps Patterns) Match(method, escapedPath string) bool {
	return paths.Flaw(escapedPath) == "" && slices.ContainsFunc(ps, func(p pattern) bool { return p.matches(method, escapedPath) })
}

// pattern is one passthrough entry, "GET /custom/*". The method may be "*"; GET includes
// HEAD, as in net/http. A segment "*" matches one segment; as the last segment it matches
// any remainder.
type pattern struct {
	method   string
	segments []string
	rest     bool
}

func parsePattern(s string) (pattern, error) {
	method, path, ok := strings.Cut(strings.TrimSpace(s), " ")
	path = strings.TrimSpace(path)
	if !ok || method == "" || !strings.HasPrefix(path, "/") {
		return pattern{}, errors.New(`want "METHOD /path", with * for one segment or, at the end, for any suffix`)
	}
	p := pattern{method: strings.ToUpper(method), segments: strings.Split(path[1:], "/")}
	if last := len(p.segments) - 1; p.segments[last] == "*" {
		p.rest = true
		p.segments = p.segments[:last]
	}
	return p, nil
}

func (p pattern) matches(method, escapedPath string) bool {
	if p.method != "*" && p.method != method && (p.method != http.MethodGet || method != http.MethodHead) {
		return false
	}
	segments := strings.Split(strings.TrimPrefix(escapedPath, "/"), "/")
	if p.rest {
		segments = segments[:min(len(segments), len(p.segments))]
	}
	return slices.EqualFunc(p.segments, segments, func(want, has string) bool { return want == "*" || want == has })
}

// Unmatched returns the passthrough entries that no request can match: those with a
// method that is never forwarded, with an impossible path, or whose paths are all routes
// of the adapter.
func Unmatched(adapter backend.Adapter, entries []string) (out []string) {
	for _, entry := range entries {
		if p, err := parsePattern(entry); err == nil && !p.isReachable(adapter) {
			out = append(out, entry)
		}
	}
	return out
}

// isReachable reports whether at least one of several sample requests that the pattern
// matches is passed through.
func (p pattern) isReachable(adapter backend.Adapter) bool {
	methods, tails := []string{p.method}, []string{""}
	if p.method == "*" {
		methods = routeMethods[:]
	}
	if p.rest {
		tails = []string{"", "/x", "/x/", "/x/x", "/x/x/x", "/x/x/x/x"}
	}
	var base strings.Builder
	for _, s := range p.segments {
		if s == "*" {
			s = "x"
		}
		base.WriteString("/" + s)
	}
	for _, tail := range tails {
		path := base.String() + tail
		u, err := url.ParseRequestURI(path)
		if err != nil || u.EscapedPath() != path || u.RawQuery != "" {
			continue
		}
		for _, method := range methods {
			if Classify(adapter, Patterns{p}, Head{Request: memproxy.Request{Method: method, EscapedPath: path}}).Name == "passthrough" {
				return true
			}
		}
	}
	return false
}
