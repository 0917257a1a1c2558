// Package routetable finds the row of a route table for a request's path.
//
// An ambiguous path, which a server might route differently, matches no row. It has an
// encoded slash that leads to another route once it is decoded, dot segments, characters at
// which servers cut the path, or a second spelling of a literal segment.
package routetable

import (
	"cmp"
	"iter"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
)

// MaxSegments bounds a path. A longer one matches no row.
const MaxSegments = 16

// Options describe how the server spells its paths.
type Options struct {
	// LastSlash distinguishes "/a" and "/a/". Otherwise they are the same.
	LastSlash bool
	// Alias maps other names of first segments to those in the table.
	Alias map[string]string
}

// Table finds rows of type R. It is safe for concurrent use.
type Table[R any] struct {
	opt  Options
	at   func(*R) (method, path string, route memproxy.Route)
	rows []R
	byID map[string]*R
	none R // the row of an unknown route
	// byMethod has the candidate rows by method and number of segments, those with the most
	// literal segments first. "*" is for all other methods.
	byMethod map[string]*[MaxSegments + 1][]*pattern[R]
	literals map[string]bool
}

// segments are the decoded parts of a path, in an array to avoid allocation.
type segments struct {
	text [MaxSegments]string
	n    int
}

// pattern is a row's parsed path.
type pattern[R any] struct {
	row      *R
	method   string
	words    []word
	literals int  // number of literal words
	open     bool // the last word matches the rest
}

// word is a segment of a pattern: a literal or, with a name, a parameter.
type word struct{ literal, name string }

// New indexes rows. at returns a row's method ("*" for all), its path and its route. In a
// path, {name} matches one segment that is not empty, {name...} the rest. If several rows
// match, the one with the most literal segments wins, then one that names the method, then
// the earlier one.
func New[R any](rows []R, at func(*R) (method, path string, route memproxy.Route), opt Options) *Table[R] {
	t := &Table[R]{
		opt: opt, at: at, rows: rows, byID: make(map[string]*R, len(rows)),
		byMethod: map[string]*[MaxSegments + 1][]*pattern[R]{"*": {}}, literals: map[string]bool{},
	}
	for name := range opt.Alias {
		t.literals[name] = true
	}
	for i := range rows {
		method, _, route := at(&rows[i])
		t.byID[route.ID] = &rows[i]
		if t.byMethod[method] == nil {
			t.byMethod[method] = new([MaxSegments + 1][]*pattern[R])
		}
	}
	for i := range rows {
		p := t.compile(&rows[i])
		for method, bySize := range t.byMethod {
			if p.method != "*" && p.method != method {
				continue
			}
			last := len(p.words)
			if p.open {
				last = MaxSegments
			}
			for n := len(p.words); n <= last; n++ {
				bySize[n] = append(bySize[n], p)
			}
		}
	}
	for _, bySize := range t.byMethod {
		for _, ps := range bySize {
			slices.SortStableFunc(ps, func(a, b *pattern[R]) int {
				return cmp.Or(cmp.Compare(b.literals, a.literals), cmp.Compare(b.method, a.method)) // "*" sorts before any letter
			})
		}
	}
	return t
}

func (t *Table[R]) compile(r *R) *pattern[R] {
	p := &pattern[R]{row: r}
	method, path, _ := t.at(r)
	p.method = method
	if path = path[1:]; !t.opt.LastSlash {
		path = strings.TrimSuffix(path, "/")
	}
	if path == "" && !t.opt.LastSlash {
		return p
	}
	for w := range strings.SplitSeq(path, "/") {
		switch {
		case strings.HasSuffix(w, "...}"):
			p.open = true
			p.words = append(p.words, word{name: "..."})
		case strings.HasPrefix(w, "{"):
			p.words = append(p.words, word{name: w[1 : len(w)-1]})
		default:
			p.words = append(p.words, word{literal: w})
			p.literals++
			if w != "" {
				t.literals[w] = true
			}
		}
	}
	return p
}

// matches reports whether a path with the same number of segments matches the pattern.
func (p *pattern[R]) matches(s *segments) bool {
	for i, w := range p.words {
		switch {
		case w.name == "...":
			return true
		case w.name != "":
			if s.text[i] == "" {
				return false
			}
		case w.literal != s.text[i]:
			return false
		}
	}
	return true
}

// params returns the path parameters, or nil if the row has none.
func (p *pattern[R]) params(s *segments) map[string]string {
	var out map[string]string
	for i, w := range p.words {
		if w.name == "" || w.name == "..." {
			continue
		}
		if out == nil {
			out = make(map[string]string, 2)
		}
		out[w.name] = s.text[i]
	}
	return out
}

// Route finds the route of a request, with the parameters of its path.
func (t *Table[R]) Route(req memproxy.Request) (memproxy.Route, bool) {
	r, params := t.Match(req.Method, req.EscapedPath)
	if r == nil {
		return memproxy.Route{}, false
	}
	_, path, route := t.at(r)
	if params != nil {
		route.Params = params
	}
	if spelled := withLastSlash(req.EscapedPath, strings.HasSuffix(path, "/")); spelled != req.EscapedPath && !strings.HasSuffix(path, "...}") {
		route.Respelled = spelled
	}
	return route, true
}

func withLastSlash(path string, slash bool) string {
	path = strings.TrimSuffix(path, "/")
	if slash {
		path += "/"
	}
	return path
}

// Row returns the row of a route by its id, and an empty one for an unknown route.
func (t *Table[R]) Row(id string) *R { return cmp.Or(t.byID[id], &t.none) }

// Routes iterates over all routes, each with its method and path.
func (t *Table[R]) Routes() iter.Seq2[string, memproxy.Route] {
	return func(yield func(string, memproxy.Route) bool) {
		for i := range t.rows {
			if method, path, route := t.at(&t.rows[i]); !yield(method+" "+path, route) {
				return
			}
		}
	}
}

// Match returns the row of a path as the client spelled it, percent-encoded, and its
// decoded parameters; nil if there is none. HEAD matches like GET. Segments are decoded
// one by one, so that an encoded slash stays inside its segment.
func (t *Table[R]) Match(method, escapedPath string) (*R, map[string]string) {
	var s segments
	slashes, ok := t.split(escapedPath, &s)
	if !ok {
		return nil, nil
	}
	p := t.find(method, &s)
	if p == nil || slashes && t.ambiguous(method, p, &s) {
		return nil, nil
	}
	return p.row, p.params(&s)
}

func (t *Table[R]) find(method string, s *segments) *pattern[R] {
	if method == "HEAD" {
		method = "GET"
	}
	bySize := cmp.Or(t.byMethod[method], t.byMethod["*"])
	for _, p := range bySize[s.n] {
		if p.matches(s) {
			return p
		}
	}
	return nil
}

// split decodes a path's segments. slashes reports whether one of them has an encoded
// slash.
func (t *Table[R]) split(escaped string, s *segments) (slashes, ok bool) {
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok || strings.ContainsAny(escaped, "\\;") {
		return false, false
	}
	if !t.opt.LastSlash {
		if rest = strings.TrimSuffix(rest, "/"); rest == "" {
			return false, escaped == "/"
		}
	}
	for more := true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if s.n == MaxSegments || part == "" && (more || !t.opt.LastSlash) {
			return false, false
		}
		text := part
		if strings.Contains(part, "%") {
			var err error
			if text, err = url.PathUnescape(part); err != nil || t.respelled(text) {
				return false, false
			}
			slashes = slashes || strings.Contains(text, "/")
		}
		if text == "." || text == ".." || strings.ContainsFunc(text, IsUnsafeInPath) || !utf8.ValidString(text) {
			return false, false
		}
		s.text[s.n] = text
		s.n++
	}
	if name, ok := t.opt.Alias[s.text[0]]; ok {
		s.text[0] = name
	}
	return slashes, true
}

// IsUnsafeInPath reports whether a segment must not contain a character, because servers cut
// or rewrite paths at it.
func IsUnsafeInPath(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }

// respelled reports whether an encoded segment is a second spelling of a literal
// segment, or changes when a server decodes it a second time.
func (t *Table[R]) respelled(text string) bool {
	if t.literals[text] {
		return true
	}
	if !strings.Contains(text, "%") {
		return false
	}
	again, err := url.PathUnescape(text)
	return err == nil && (again == "." || again == ".." || strings.ContainsAny(again, "/\\%") || t.literals[again])
}

// ambiguous reports whether a path with encoded slashes matches another row on a server
// that decodes before it routes, as WSGI and ASGI servers do.
func (t *Table[R]) ambiguous(method string, p *pattern[R], s *segments) bool {
	var flat segments
	for i := range s.n {
		for rest, more := s.text[i], true; more; {
			var part string
			part, rest, more = strings.Cut(rest, "/")
			if flat.n == MaxSegments || part == "." || part == ".." || part == "" && s.text[i] != "" {
				return true
			}
			flat.text[flat.n] = part
			flat.n++
		}
	}
	other := t.find(method, &flat)
	return other != nil && other != p || p.open
}
