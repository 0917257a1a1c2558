package mem0

import (
	"maps"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/internal/must"
)

// slowMatch is the matcher as one would write it down: every row is tried, the
// one with the most literal segments wins, the earlier of two.
func slowMatch(method, escaped string) (*row, map[string]string) {
	if method == "HEAD" {
		method = "GET"
	}
	segs, ok := slowSplit(escaped)
	if !ok {
		return nil, nil
	}
	best, ps := slowFind(method, segs)
	if best == nil || !strings.Contains(strings.Join(segs, ""), "/") {
		return best, ps
	}
	flat := strings.Split(strings.Join(segs, "/"), "/")
	for i, s := range flat {
		if s == "." || s == ".." || s == "" && i < len(flat)-1 || s == "" && segs[len(segs)-1] != "" {
			return nil, nil
		}
	}
	other, _ := slowFind(method, flat)
	if other != nil && other != best || strings.Contains(best.path, "...") || len(flat) > routetable.MaxSegments {
		return nil, nil
	}
	return best, ps
}

func slowFind(method string, segs []string) (best *row, ps map[string]string) {
	score := -1
	for i := range table {
		r := &table[i]
		if r.method != method && r.method != "*" {
			continue
		}
		if n, got := slowFits(r.path, segs); n > score {
			best, ps, score = r, got, n
		}
	}
	return best, ps
}

func slowFits(pattern string, segs []string) (int, map[string]string) {
	want, n := strings.Split(pattern[1:], "/"), 0
	ps := map[string]string{}
	for i, w := range want {
		switch {
		case i >= len(segs):
			return -1, nil
		case strings.HasSuffix(w, "...}"):
			return n, ps
		case strings.HasPrefix(w, "{"):
			if segs[i] == "" {
				return -1, nil
			}
			ps[strings.Trim(w, "{}")] = segs[i]
		case w != segs[i]:
			return -1, nil
		default:
			n++
		}
	}
	if len(segs) != len(want) {
		return -1, nil
	}
	return n, ps
}

func slowSplit(escaped string) ([]string, bool) {
	literals := map[string]bool{}
	for _, r := range table {
		for _, w := range strings.Split(r.path, "/") {
			if w != "" && w[0] != '{' {
				literals[w] = true
			}
		}
	}
	if !strings.HasPrefix(escaped, "/") || strings.ContainsAny(escaped, `\;`) {
		return nil, false
	}
	parts := strings.Split(escaped[1:], "/")
	if len(parts) > routetable.MaxSegments {
		return nil, false
	}
	for i, p := range parts {
		text, err := url.PathUnescape(p)
		again, again2 := url.PathUnescape(text)
		switch {
		case err != nil, text == ".", text == "..", text == "" && i < len(parts)-1, !utf8.ValidString(text), text != p && literals[text]:
			return nil, false
		case strings.Contains(p, "%") && again2 == nil && again != text && (again == "." || again == ".." || strings.ContainsAny(again, `/\%`) || literals[again]):
			return nil, false
		}
		for _, c := range text {
			if c < ' ' || c == 0x7f || c == '\\' {
				return nil, false
			}
		}
		parts[i] = text
	}
	return parts, true
}

// Proves EDGE-3: the index answers what the table says.
func FuzzRoute(f *testing.F) {
	for _, r := range table {
		p := strings.NewReplacer("{", "", "}", "", "...", "/a/b").Replace(r.path)
		f.Add(r.method, p)
		f.Add("DELETE", strings.Replace(p, "id", "x%2Fhistory", 1))
		f.Add("PUT", strings.Replace(p, "memories", "%6demories", 1))
	}
	f.Add("GET", "/auth/%252e%252e/a")
	f.Add("GET", "/memories/50%25")
	a := must.Get(New(Options{}))(f)
	f.Fuzz(func(t *testing.T, method, path string) {
		want, ps := slowMatch(method, path)
		got, ok := a.Route(memproxy.Request{Method: method, EscapedPath: path})
		if ok != (want != nil) || ok && (got.ID != want.id || !maps.Equal(got.Params, ps)) {
			t.Errorf("%s %q: %s %q, want %v %q", method, path, got.ID, got.Params, want, ps)
		}
	})
}

// Ids are unique, because Decode finds its row again by them.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range table {
		if seen[r.id] {
			t.Errorf("%s stands twice", r.id)
		}
		seen[r.id] = true
		if n := strings.Count(r.path, "/"); n > routetable.MaxSegments {
			t.Errorf("%s has %d segments", r.path, n)
		}
		if r.flags&pass != 0 && r.kind != memproxy.Other {
			t.Errorf("%s passes and is %s", r.id, r.kind)
		}
		if r.flags&public != 0 && r.flags&pass == 0 {
			t.Errorf("%s is public and does not pass", r.id)
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	a, _ := New(Options{})
	req := memproxy.Request{Method: "POST", EscapedPath: "/v3/memories/search/"}
	b.ReportAllocs()
	for b.Loop() {
		a.Route(req)
	}
}
