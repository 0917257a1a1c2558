// Package routetable reads the table of a backend's routes, and finds the row of a request.
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

// Row is one line of a table: a method ("*" for all), a path, an id, the kind of operation, the
// shape of the body, and flags. In a path, {name} matches one segment that is not empty,
// {name...} the rest.
type Row struct {
	Method, Path   string
	memproxy.Route // of its requests, without parameters
	Shape          Shape
	flags          []string
}

// Shape is the layout of a route's payload, which only the adapter knows.
type Shape string

// Opaque is the shape of payloads that are not decoded, and of unknown routes.
const Opaque Shape = "opaque"

// Flag is a word about a route that only the adapter knows.
type Flag string

// Is reports whether the row has a flag.
func (r *Row) Is(f Flag) bool { return slices.Contains(r.flags, string(f)) }

// Options describe a table, and how the server spells its paths.
type Options struct {
	// Prefix precedes the ids of the table.
	Prefix string
	// Shapes and Flags are the adapter's words, besides those that set a member of a
	// memproxy.Route: bulk, steering, derived, pass and public.
	Shapes []Shape
	Flags  []Flag
	// LastSlash distinguishes "/a" and "/a/". Otherwise they are the same.
	LastSlash bool
	// Alias maps other names of first segments to those in the table.
	Alias map[string]string
}

// Table finds rows. It is safe for concurrent use.
type Table struct {
	Rows []Row
	opt  Options
	byID map[string]*Row
	// byMethod has the candidate rows by method and number of segments, those with the most
	// literal segments first. "*" is for all other methods.
	byMethod map[string]*[MaxSegments + 1][]*pattern
	literals map[string]bool
}

// segments are the decoded parts of a path, in an array to avoid allocation.
type segments struct {
	text [MaxSegments]string
	n    int
}

// pattern is a row's parsed path.
type pattern struct {
	row      *Row
	words    []word
	literals int  // number of literal words
	open     bool // the last word matches the rest
}

// word is a segment of a pattern: a literal or, with a name, a parameter.
type word struct{ literal, name string }

// Parse reads a table that is embedded at build time.
func Parse(text string, opt Options) *Table {
	t := &Table{opt: opt}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		r := Row{Method: f[0], Path: f[1], Route: memproxy.Route{ID: opt.Prefix + f[2], Kind: memproxy.Kind(f[3])}, Shape: Shape(f[4]), flags: f[5:]}
		known := r.Shape == Opaque || slices.Contains(opt.Shapes, r.Shape)
		for _, name := range r.flags {
			switch name {
			case "bulk":
				r.Bulk = true
			case "steering":
				r.Steering = true
			case "derived":
				r.Derived = true
			case "pass":
				r.Pass = true
			case "public":
				r.Public = true
			default:
				known = known && slices.Contains(opt.Flags, Flag(name))
			}
		}
		if !known {
			panic("routetable: unknown word in " + line)
		}
		t.Rows = append(t.Rows, r)
	}
	t.index()
	return t
}

// index sorts the rows for find. If several rows match, the one with the most literal segments
// wins, then one that names the method, then the earlier one.
func (t *Table) index() {
	t.byID, t.byMethod, t.literals = map[string]*Row{}, map[string]*[MaxSegments + 1][]*pattern{"*": {}}, map[string]bool{}
	for name := range t.opt.Alias {
		t.literals[name] = true
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		t.byID[r.ID] = r
		if t.byMethod[r.Method] == nil {
			t.byMethod[r.Method] = new([MaxSegments + 1][]*pattern)
		}
	}
	for i := range t.Rows {
		p := t.compile(&t.Rows[i])
		for method, bySize := range t.byMethod {
			if p.row.Method != "*" && p.row.Method != method {
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
			slices.SortStableFunc(ps, func(a, b *pattern) int {
				return cmp.Or(cmp.Compare(b.literals, a.literals), cmp.Compare(b.row.Method, a.row.Method)) // "*" sorts before any letter
			})
		}
	}
}

func (t *Table) compile(r *Row) *pattern {
	p, path := &pattern{row: r}, r.Path[1:]
	if !t.opt.LastSlash {
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
func (p *pattern) matches(s *segments) bool {
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
func (p *pattern) params(s *segments) map[string]string {
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
func (t *Table) Route(req memproxy.Request) (memproxy.Route, bool) {
	r, params := t.Match(req.Method, req.EscapedPath)
	if r == nil {
		return memproxy.Route{}, false
	}
	route := r.Route
	route.Params = params
	if params == nil {
		route.Params = map[string]string{} // Decode also stores there what Read needs
	}
	if spelled := withLastSlash(req.EscapedPath, strings.HasSuffix(r.Path, "/")); spelled != req.EscapedPath && !strings.HasSuffix(r.Path, "...}") {
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

var unknown = Row{Shape: Opaque}

// Row returns the row of a route by its id, and an opaque one for an unknown route.
func (t *Table) Row(id string) *Row { return cmp.Or(t.byID[id], &unknown) }

// Routes iterates over all routes, each with its method and path.
func (t *Table) Routes() iter.Seq2[string, memproxy.Route] {
	return func(yield func(string, memproxy.Route) bool) {
		for i := range t.Rows {
			if r := &t.Rows[i]; !yield(r.Method+" "+r.Path, r.Route) {
				return
			}
		}
	}
}

// Match returns the row of a path as the client spelled it, percent-encoded, and its
// decoded parameters; nil if there is none. HEAD matches like GET. Segments are decoded
// one by one, so that an encoded slash stays inside its segment.
func (t *Table) Match(method, escapedPath string) (*Row, map[string]string) {
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

func (t *Table) find(method string, s *segments) *pattern {
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
func (t *Table) split(escaped string, s *segments) (slashes, ok bool) {
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
func (t *Table) respelled(text string) bool {
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
func (t *Table) ambiguous(method string, p *pattern, s *segments) bool {
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
