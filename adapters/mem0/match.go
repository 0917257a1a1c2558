package mem0

import (
	"net/url"
	"strings"

	"github.com/memproxy/memproxy"
)

// match finds the row of a path as the client spelled it. Segments are
// decoded one by one, so that an encoded slash stays inside its segment. A
// path that can be read in two ways belongs to no row.
func match(method, escaped string) (*row, map[string]string) {
	if method == "HEAD" {
		method = "GET"
	}
	segs, ok := split(escaped)
	if !ok {
		return nil, nil
	}
	var best *row
	score := -1
	for i := range table {
		r := &table[i]
		if r.method != method && r.method != "*" {
			continue
		}
		if n := fits(r.path, segs); n > score {
			best, score = r, n
		}
	}
	if best == nil {
		return nil, nil
	}
	return best, params(best.path, segs)
}

// segment is one decoded part of a path.
type segment struct{ text string }

func split(escaped string) ([]segment, bool) {
	if !strings.HasPrefix(escaped, "/") || strings.ContainsAny(escaped, "\\;") {
		return nil, false
	}
	parts := strings.Split(escaped[1:], "/")
	out := make([]segment, len(parts))
	for i, p := range parts {
		text := p
		if strings.Contains(p, "%") {
			var err error
			if text, err = url.PathUnescape(p); err != nil {
				return nil, false
			}
		}
		if text == "." || text == ".." || strings.ContainsAny(text, "\x00\\") || (text == "" && i < len(parts)-1) {
			return nil, false
		}
		// An unreserved character that is encoded all the same is a second
		// spelling of a literal segment; in an id it is just an id.
		out[i] = segment{text}
		if text != p && literal(text) {
			return nil, false
		}
	}
	return out, true
}

// literals are the segments that routes are told apart by.
var literals = func() map[string]bool {
	m := map[string]bool{}
	for i := range table {
		for _, s := range strings.Split(table[i].path, "/") {
			if s != "" && s[0] != '{' {
				m[s] = true
			}
		}
	}
	return m
}()

func literal(s string) bool { return literals[s] }

// fits returns how many literal segments a pattern shares with a path, or -1.
func fits(pattern string, segs []segment) int {
	want := strings.Split(pattern[1:], "/")
	n := 0
	for i, w := range want {
		if strings.HasSuffix(w, "...}") {
			if i >= len(segs) {
				return -1
			}
			return n
		}
		if i >= len(segs) {
			return -1
		}
		switch {
		case w != "" && w[0] == '{':
			if segs[i].text == "" {
				return -1
			}
		case w != segs[i].text:
			return -1
		default:
			n++
		}
	}
	if len(want) != len(segs) {
		return -1
	}
	return n
}

func params(pattern string, segs []segment) map[string]string {
	var out map[string]string
	for i, w := range strings.Split(pattern[1:], "/") {
		if w == "" || w[0] != '{' || strings.HasSuffix(w, "...}") {
			continue
		}
		if out == nil {
			out = make(map[string]string, 2)
		}
		out[w[1:len(w)-1]] = segs[i].text
	}
	return out
}

// Route implements the gate's adapter.
func (a *Adapter) Route(req memproxy.Request) (memproxy.Route, bool) {
	r, ps := match(req.Method, req.EscapedPath)
	if r == nil {
		return memproxy.Route{}, false
	}
	if ps == nil && (r.shape == search || r.shape == list) {
		ps = map[string]string{} // Decode notes the projection here, for Rewrite
	}
	return memproxy.Route{
		ID: r.id, Kind: r.kind, Params: ps,
		Bulk: r.flags&bulk != 0, Steering: r.flags&steering != 0, Derived: r.flags&derived != 0,
		Pass: r.flags&pass != 0, Lend: r.flags&lend != 0,
	}, true
}

// rowOf finds a route's row again by its id.
func rowOf(id string) *row {
	for i := range table {
		if table[i].id == id {
			return &table[i]
		}
	}
	return nil
}
