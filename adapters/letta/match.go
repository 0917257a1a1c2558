package letta

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
)

// maxSegments bounds a path. The longest row has nine.
const maxSegments = 12

// segments are a request's path, decoded part by part, as the table spells
// it: /latest as /v1, without the last slash.
type segments struct {
	text [maxSegments]string
	n    int
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

// index is the route table, laid out for finding.
type index struct {
	// bySize has, by number of segments, the rows that may fit, those with
	// the most literal segments first.
	bySize   [maxSegments + 1][]*pattern
	byID     map[string]*row
	literals map[string]bool
}

func newIndex() *index {
	x := &index{byID: make(map[string]*row, len(table)), literals: map[string]bool{"latest": true}}
	for i := range table {
		p := compile(&table[i])
		x.byID[p.row.id] = p.row
		for _, w := range p.words {
			if w.literal != "" {
				x.literals[w.literal] = true
			}
		}
		last := len(p.words)
		if p.open {
			last = maxSegments
		}
		for n := len(p.words); n <= last; n++ {
			x.bySize[n] = append(x.bySize[n], p)
		}
	}
	for _, ps := range x.bySize {
		// A row for one method stands before one for every other method.
		slices.SortStableFunc(ps, func(a, b *pattern) int {
			return cmp.Or(cmp.Compare(b.fixed, a.fixed), cmp.Compare(b.row.method, a.row.method))
		})
	}
	return x
}

func compile(r *row) *pattern {
	p := &pattern{row: r}
	for w := range strings.SplitSeq(strings.Trim(r.path, "/"), "/") {
		switch {
		case strings.HasSuffix(w, "...}"):
			p.open = true
			p.words = append(p.words, word{name: "..."})
		case strings.HasPrefix(w, "{"):
			p.words = append(p.words, word{name: w[1 : len(w)-1]})
		case w != "":
			p.words = append(p.words, word{literal: w})
			p.fixed++
		}
	}
	return p
}

// fits reports whether a path of the pattern's length belongs to it.
func (p *pattern) fits(method string, s *segments) bool {
	if p.row.method != method && p.row.method != "*" {
		return false
	}
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

func (x *index) find(method string, s *segments) *pattern {
	if method == "HEAD" {
		method = "GET"
	}
	for _, p := range x.bySize[s.n] {
		if p.fits(method, s) {
			return p
		}
	}
	return nil
}

// match finds the row of a path as the client spelled it. The server routes on
// the decoded path, so a path that decodes to another row belongs to none.
func (x *index) match(method, escaped string, s *segments) *pattern {
	slashes, ok := x.split(escaped, s)
	if !ok {
		return nil
	}
	p := x.find(method, s)
	if slashes && p != nil && x.ambiguous(method, p, s) {
		return nil
	}
	return p
}

// split decodes a path's segments. The first result says that one of them
// holds an encoded slash.
func (x *index) split(escaped string, s *segments) (slashes, ok bool) {
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok || strings.ContainsAny(escaped, "\\;") {
		return false, false
	}
	rest = strings.TrimSuffix(rest, "/")
	if rest == "" {
		return false, escaped == "/"
	}
	for part := range strings.SplitSeq(rest, "/") {
		if s.n == maxSegments || part == "" {
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
	if s.text[0] == "latest" {
		s.text[0] = "v1"
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

// ambiguous reports whether a path with encoded slashes leads to another row
// once it is decoded as a whole.
func (x *index) ambiguous(method string, p *pattern, s *segments) bool {
	var flat segments
	for i := range s.n {
		for part := range strings.SplitSeq(s.text[i], "/") {
			if flat.n == maxSegments || part == "" || part == "." || part == ".." {
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
	r := p.row
	rt := memproxy.Route{
		ID: r.id, Kind: r.kind,
		Bulk: r.is(bulk), Steering: r.is(steering), Derived: r.is(derived), Pass: r.is(pass),
	}
	for i, w := range p.words {
		if w.name == "" || w.name == "..." {
			continue
		}
		if rt.Params == nil {
			rt.Params = make(map[string]string, 2)
		}
		rt.Params[w.name] = s.text[i]
	}
	if rt.Params == nil && r.shape == search {
		rt.Params = map[string]string{} // Decode notes whose memory is searched here, for Read
	}
	return rt, true
}

// row finds a route's row again by its id.
func (a *Adapter) row(id string) *row { return a.index.byID[id] }
