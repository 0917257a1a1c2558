package routetable_test

import (
	"fmt"
	"iter"
	"maps"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/internal/must"
)

// The tables agree with a simple matcher.
func FuzzMatch(f *testing.F) { agrees(f, build(strict), strict) }

func FuzzMatchAlias(f *testing.F) { agrees(f, build(either), either) }

// Proves EDGE-3: the index agrees with the table.
func FuzzMatchLetta(f *testing.F) { agrees(f, must.Get(letta.New(letta.Options{}))(f), either) }

// Proves EDGE-3: the index agrees with the table.
func FuzzMatchMem0(f *testing.F) { agrees(f, must.Get(mem0.New(mem0.Options{}))(f), strict) }

type table interface {
	Routes() iter.Seq2[string, memproxy.Route]
	Route(memproxy.Request) (memproxy.Route, bool)
}

// agrees checks that a table finds the same row as a simple matcher.
func agrees(f *testing.F, table table, opt routetable.Options) {
	var rows []routetable.Row
	for at, rt := range table.Routes() {
		method, path, _ := strings.Cut(at, " ")
		rows = append(rows, routetable.Row{Method: method, Path: path, Route: rt})
		p := strings.NewReplacer("{", "", "}", "", "...", "/a/b").Replace(path)
		f.Add(method, p)
		f.Add("DELETE", strings.Replace(p, "id", "x%2Fhistory", 1))
		if p != "/" {
			f.Add("PUT", fmt.Sprintf("/%%%x%s", p[1], p[2:]))
		}
	}
	f.Add("GET", "/auth/%252e%252e/a")
	f.Add("GET", "/latest/%252e%252e/a")
	f.Add("GET", "/memories/50%25")
	f.Fuzz(func(t *testing.T, method, path string) {
		want, params := slow(rows, opt, method, path)
		got, ok := table.Route(memproxy.Request{Method: method, EscapedPath: path})
		if ok != (want != nil) || ok && (got.ID != want.ID || !maps.Equal(got.Params, params)) {
			t.Errorf("%s %q: %s %q, want %v %q", method, path, got.ID, got.Params, want, params)
		}
	})
}

// slow is the simple matcher: it tries every row. The one with the most literal
// segments wins, then one that names the method, then the earlier.
func slow(rows []routetable.Row, opt routetable.Options, method, escaped string) (best *routetable.Row, params map[string]string) {
	if method == "HEAD" {
		method = "GET"
	}
	parts, ok := split(rows, opt, escaped)
	if !ok {
		return nil, nil
	}
	best, params = find(rows, opt, method, parts)
	if best == nil || !strings.Contains(strings.Join(parts, ""), "/") {
		return best, params
	}
	flat := strings.Split(strings.Join(parts, "/"), "/")
	for i, s := range flat {
		if s == "." || s == ".." || s == "" && (i < len(flat)-1 || parts[len(parts)-1] != "") {
			return nil, nil
		}
	}
	other, _ := find(rows, opt, method, flat)
	if other != nil && other != best || strings.Contains(best.Path, "...") || len(flat) > routetable.MaxSegments {
		return nil, nil
	}
	return best, params
}

func find(rows []routetable.Row, opt routetable.Options, method string, parts []string) (best *routetable.Row, params map[string]string) {
	score := -1
	for i := range rows {
		r := &rows[i]
		if r.Method != method && r.Method != "*" {
			continue
		}
		n, ps := fits(words(opt, r.Path), parts)
		if n = 2 * n; n >= 0 && r.Method == method {
			n++
		}
		if n > score {
			best, params, score = r, ps, n
		}
	}
	return best, params
}

func words(opt routetable.Options, path string) []string {
	if path = path[1:]; !opt.LastSlash {
		path = strings.TrimSuffix(path, "/")
		if path == "" {
			return nil
		}
	}
	return strings.Split(path, "/")
}

func fits(want, parts []string) (int, map[string]string) {
	n, ps := 0, map[string]string{}
	for i, w := range want {
		switch {
		case i >= len(parts):
			return -1, nil
		case strings.HasSuffix(w, "...}"):
			return n, ps
		case strings.HasPrefix(w, "{"):
			if parts[i] == "" {
				return -1, nil
			}
			ps[strings.Trim(w, "{}")] = parts[i]
		case w != parts[i]:
			return -1, nil
		default:
			n++
		}
	}
	if len(parts) != len(want) {
		return -1, nil
	}
	return n, ps
}

func split(rows []routetable.Row, opt routetable.Options, escaped string) ([]string, bool) {
	literals := map[string]bool{}
	for name := range opt.Alias {
		literals[name] = true
	}
	for _, r := range rows {
		for _, w := range strings.Split(r.Path, "/") {
			if w != "" && w[0] != '{' {
				literals[w] = true
			}
		}
	}
	if !strings.HasPrefix(escaped, "/") || strings.ContainsAny(escaped, `\;`) {
		return nil, false
	}
	parts := words(opt, escaped)
	if len(parts) > routetable.MaxSegments || parts == nil && escaped != "/" {
		return nil, false
	}
	for i, p := range parts {
		text, err := url.PathUnescape(p)
		again, unreadable := url.PathUnescape(text)
		switch {
		case err != nil, text == ".", text == "..", !utf8.ValidString(text), text != p && literals[text]:
			return nil, false
		case text == "" && (i < len(parts)-1 || !opt.LastSlash):
			return nil, false
		case strings.Contains(p, "%") && unreadable == nil && again != text && (again == "." || again == ".." || strings.ContainsAny(again, `/\%`) || literals[again]):
			return nil, false
		}
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }) {
			return nil, false
		}
		parts[i] = text
	}
	if len(parts) > 0 && opt.Alias[parts[0]] != "" {
		parts[0] = opt.Alias[parts[0]]
	}
	return parts, true
}
