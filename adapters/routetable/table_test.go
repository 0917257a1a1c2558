package routetable_test

import (
	"maps"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
)

type row struct{ method, path, id string }

var rows = []row{
	{"GET", "/v1/things/", "list"},
	{"GET", "/v1/things/{id}/", "get"},
	{"GET", "/v1/things/{id}/history/", "history"},
	{"GET", "/v1/things/count/", "count"},
	{"DELETE", "/v1/things/{id}/", "delete"},
	{"*", "/v1/things/{id}/", "other"},
	{"POST", "/v1/{kind}/{id}/", "add"},
	{"*", "/admin/{rest...}", "admin"},
	{"GET", "/", "root"},
}

func build(opt routetable.Options) *routetable.Table[row] {
	return routetable.New(rows, func(r *row) (string, string, memproxy.Route) { return r.method, r.path, memproxy.Route{ID: r.id} }, opt)
}

// Proves EDGE-3: a path that can be read in two ways belongs to no row.
func TestMatch(t *testing.T) {
	either := build(routetable.Options{Alias: map[string]string{"latest": "v1"}})
	strict := build(routetable.Options{LastSlash: true})
	for _, c := range []struct{ method, path, want, wantStrict string }{
		{"GET", "/v1/things/", "list", "list"},
		{"GET", "/v1/things", "list", ""},
		{"HEAD", "/v1/things/", "list", "list"},
		{"GET", "/latest/things/", "list", ""},
		{"GET", "/l%61test/things/", "", ""},
		{"GET", "/v1/things/a/", "get a", "get a"},
		{"GET", "/v1/things/a%2Fb/", "get a/b", "get a/b"},
		{"GET", "/v1/things/a%2Fhistory/", "", ""}, // decoded, it is a history
		{"GET", "/v1/things/count/", "count", "count"},
		{"GET", "/v1/things/c%6funt/", "", ""},
		{"GET", "/v1/things/c%256funt/", "", ""},
		{"PATCH", "/v1/things/a/", "other a", "other a"},
		{"POST", "/v1/others/a/", "add a others", "add a others"},
		{"POST", "/v1/things/a/", "other a", "other a"}, // a literal counts for more than a method
		{"GET", "/v1/things//", "", ""},
		{"GET", "/v1//things/", "", ""},
		{"GET", "/v1/things/./", "", ""},
		{"GET", "/v1/things/%2e%2e/", "", ""},
		{"GET", "/v1/things/%252e%252e/", "", ""},
		{"GET", "/v1/things/a;b/", "", ""},
		{"GET", `/v1/things/a\b/`, "", ""},
		{"GET", "/v1/things/a%00/", "", ""},
		{"GET", "/v1/things/a%5cb/", "", ""},
		{"GET", "/v1/things/%ff/", "", ""},
		{"GET", "/v1/things/%zz/", "", ""},
		{"POST", "/admin/a/b/c", "admin", "admin"},
		{"POST", "/admin/a%2Fb", "", ""},
		{"GET", "/" + strings.Repeat("a/", 40), "", ""},
		{"GET", "/", "root", "root"},
		{"GET", "", "", ""},
		{"GET", "//", "", ""},
	} {
		for _, x := range []struct {
			t    *routetable.Table[row]
			want string
		}{{either, c.want}, {strict, c.wantStrict}} {
			got := ""
			if r, ps := x.t.Match(c.method, c.path); r != nil {
				got = strings.TrimSpace(strings.Join([]string{r.id, ps["id"], ps["kind"]}, " "))
			}
			if got != x.want {
				t.Errorf("%s %s (last slash told apart: %v): %q, want %q", c.method, c.path, x.t == strict, got, x.want)
			}
		}
	}
}

// slow is the matcher as one would write it down: every row is tried, the one
// with the most literal segments wins, then the one that names the method, then
// the earlier.
func slow(opt routetable.Options, method, escaped string) (best *row, params map[string]string) {
	if method == "HEAD" {
		method = "GET"
	}
	parts, ok := slowSplit(opt, escaped)
	if !ok {
		return nil, nil
	}
	best, params = slowFind(opt, method, parts)
	if best == nil || !strings.Contains(strings.Join(parts, ""), "/") {
		return best, params
	}
	flat := strings.Split(strings.Join(parts, "/"), "/")
	for i, s := range flat {
		if s == "." || s == ".." || s == "" && (i < len(flat)-1 || parts[len(parts)-1] != "") {
			return nil, nil
		}
	}
	other, _ := slowFind(opt, method, flat)
	if other != nil && other != best || strings.Contains(best.path, "...") || len(flat) > routetable.MaxSegments {
		return nil, nil
	}
	return best, params
}

func slowFind(opt routetable.Options, method string, parts []string) (best *row, params map[string]string) {
	score := -1
	for i := range rows {
		r := &rows[i]
		if r.method != method && r.method != "*" {
			continue
		}
		n, ps := slowFits(words(opt, r.path), parts)
		if n = 2 * n; n >= 0 && r.method == method {
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

func slowFits(want, parts []string) (int, map[string]string) {
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

func slowSplit(opt routetable.Options, escaped string) ([]string, bool) {
	literals := map[string]bool{}
	for name := range opt.Alias {
		literals[name] = true
	}
	for _, r := range rows {
		for _, w := range strings.Split(r.path, "/") {
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

// FuzzMatch holds the table against the matcher that tries every row.
func FuzzMatch(f *testing.F) {
	for _, r := range rows {
		p := strings.NewReplacer("{", "", "}", "", "...", "/a/b").Replace(r.path)
		f.Add(r.method, p, true)
		f.Add("DELETE", strings.Replace(p, "id", "x%2Fhistory", 1), false)
		f.Add("PUT", strings.Replace(p, "things", "%74hings", 1), false)
	}
	f.Add("GET", "/latest/%252e%252e/a", false)
	f.Fuzz(func(t *testing.T, method, path string, lastSlash bool) {
		opt := routetable.Options{LastSlash: lastSlash, Alias: map[string]string{"latest": "v1"}}
		want, params := slow(opt, method, path)
		got, ps := build(opt).Match(method, path)
		if got != want || !maps.Equal(ps, params) {
			t.Errorf("%s %q: %v %q, want %v %q", method, path, got, ps, want, params)
		}
	})
}

func TestMatchWithoutParametersDoesNotAllocate(t *testing.T) {
	x := build(routetable.Options{LastSlash: true})
	for _, path := range []string{"/v1/things/", "/v1/things/count/", "/admin/a/b"} {
		if n := testing.AllocsPerRun(100, func() { x.Match("GET", path) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}
