package mem0

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
)

// maxSegments bounds a path. The longest row has ten.
const maxSegments = 16

// segments are the decoded parts of a path, in an array that needs no heap.
type segments struct {
	text [maxSegments]string
	n    int
}

// index is the route table, laid out for finding.
type index struct {
	// byMethod has, by number of segments, the rows that may fit, the one
	// with the most literal segments first. "*" is for every other method.
	byMethod map[string]*[maxSegments + 1][]*pattern
	byID     map[string]*row
	literals map[string]bool
}

// pattern is a row's path, taken apart.
type pattern struct {
	row   *row
	words []word
	fixed int  // how many words are literal
	open  bool // the last word takes the rest
}

// word is a literal or, with a name, a parameter.
type word struct{ literal, name string }

func newIndex() *index {
	x := &index{byMethod: map[string]*[maxSegments + 1][]*pattern{"*": {}}, byID: map[string]*row{}, literals: map[string]bool{}}
	for i := range table {
		r := &table[i]
		x.byID[r.id] = r
		if x.byMethod[r.method] == nil {
			x.byMethod[r.method] = new([maxSegments + 1][]*pattern)
		}
	}
	for i := range table {
		p := compile(&table[i])
		for _, w := range p.words {
			if w.literal != "" {
				x.literals[w.literal] = true
			}
		}
		for method, bySegments := range x.byMethod {
			if p.row.method != "*" && p.row.method != method {
				continue
			}
			last := len(p.words)
			if p.open {
				last = maxSegments
			}
			for n := len(p.words); n <= last; n++ {
				bySegments[n] = append(bySegments[n], p)
			}
		}
	}
	for _, bySegments := range x.byMethod {
		for _, ps := range bySegments {
			slices.SortStableFunc(ps, func(a, b *pattern) int { return cmp.Compare(b.fixed, a.fixed) })
		}
	}
	return x
}

func compile(r *row) *pattern {
	p := &pattern{row: r}
	for w := range strings.SplitSeq(r.path[1:], "/") {
		switch {
		case strings.HasSuffix(w, "...}"):
			p.open = true
			p.words = append(p.words, word{name: "..."})
		case strings.HasPrefix(w, "{"):
			p.words = append(p.words, word{name: w[1 : len(w)-1]})
		default:
			p.words = append(p.words, word{literal: w})
			p.fixed++
		}
	}
	return p
}

// fits reports whether a path of the pattern's length belongs to it.
func (p *pattern) fits(s *segments) bool {
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

// params are the path parameters, or nil where the row has none.
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

// match finds the row of a path as the client spelled it. Segments are decoded
// one by one, so that an encoded slash stays inside its segment. A path that
// can be read in two ways belongs to no row.
func (x *index) match(method, escaped string, s *segments) *pattern {
	encoded, ok := x.split(escaped, s)
	if !ok {
		return nil
	}
	p := x.find(method, s)
	if encoded && p != nil && x.ambiguous(method, p, s) {
		return nil
	}
	return p
}

func (x *index) find(method string, s *segments) *pattern {
	if method == "HEAD" {
		method = "GET"
	}
	bySegments := x.byMethod[method]
	if bySegments == nil {
		bySegments = x.byMethod["*"]
	}
	for _, p := range bySegments[s.n] {
		if p.fits(s) {
			return p
		}
	}
	return nil
}

// split decodes a path's segments. The first result says that one of them
// holds an encoded slash.
func (x *index) split(escaped string, s *segments) (slashes, ok bool) {
	if !strings.HasPrefix(escaped, "/") || strings.ContainsAny(escaped, "\\;") {
		return false, false
	}
	s.n = 0
	for rest, more := escaped[1:], true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if s.n == maxSegments || (part == "" && more) {
			return false, false
		}
		text := part
		if strings.Contains(part, "%") {
			var err error
			if text, err = url.PathUnescape(part); err != nil || x.respelled(text) {
				return false, false
			}
			slashes = slashes || strings.Contains(text, "/")
		}
		if text == "." || text == ".." || strings.ContainsFunc(text, unfit) || !utf8.ValidString(text) {
			return false, false
		}
		s.text[s.n] = text
		s.n++
	}
	return slashes, true
}

// unfit are characters that no segment holds: servers cut or rewrite paths at
// them.
func unfit(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }

// respelled reports whether an encoded segment is a second spelling of one
// that routes are told apart by, or becomes something else when a server
// decodes it a second time.
func (x *index) respelled(text string) bool {
	if x.literals[text] {
		return true
	}
	if !strings.Contains(text, "%") {
		return false
	}
	again, err := url.PathUnescape(text)
	return err == nil && (again == "." || again == ".." || strings.ContainsAny(again, "/\\%") || x.literals[again])
}

// ambiguous reports whether a path with encoded slashes leads elsewhere on a
// server that decodes before it routes, as WSGI and ASGI servers do.
func (x *index) ambiguous(method string, p *pattern, s *segments) bool {
	var flat segments
	for i := range s.n {
		for rest, more := s.text[i], true; more; {
			var part string
			part, rest, more = strings.Cut(rest, "/")
			if flat.n == maxSegments || part == "." || part == ".." || (part == "" && s.text[i] != "") {
				return true
			}
			flat.text[flat.n] = part
			flat.n++
		}
	}
	other := x.find(method, &flat)
	return other != nil && other != p || p.open
}

// Route implements the gate's adapter.
func (a *Adapter) Route(req memproxy.Request) (memproxy.Route, bool) {
	var s segments
	p := a.index.match(req.Method, req.EscapedPath, &s)
	if p == nil {
		return memproxy.Route{}, false
	}
	r, ps := p.row, p.params(&s)
	if ps == nil && (r.shape == search || r.shape == list) {
		ps = map[string]string{} // Decode notes the projection here, for Rewrite
	}
	return memproxy.Route{
		ID: r.id, Kind: r.kind, Params: ps,
		Bulk: r.flags&bulk != 0, Steering: r.flags&steering != 0, Derived: r.flags&derived != 0,
		Pass: r.flags&pass != 0, Lend: r.flags&lend != 0,
	}, true
}

// row finds a route's row again by its id.
func (a *Adapter) row(id string) *row { return a.index.byID[id] }
