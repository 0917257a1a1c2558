// Package adaptertest has the contract tests of all adapters.
//
// A case is one txtar file, named after what it shows (see Case). In addition to its
// expectations, every case must satisfy the laws of backend.Adapter: no
// panics, no unintended changes, a patched body decodes to the same operation, and refusals
// are JSON.
package adaptertest

import (
	"bytes"
	"flag"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Adapter is what every adapter implements.
type Adapter = backend.Adapter

// RoutedAdapter is an adapter with its table of routes.
type RoutedAdapter interface {
	Adapter
	Routes() iter.Seq2[string, memproxy.Route]
}

// requestTo returns a request without a body to a row, "METHOD /pattern". filled returns a
// path for a pattern.
func requestTo(row string, filled func(pattern string) string) memproxy.Request {
	method, pattern, _ := strings.Cut(row, " ")
	if method == "*" {
		method = "POST"
	}
	path := filled(pattern)
	return memproxy.Request{Method: method, EscapedPath: path, Base: Base, Header: memproxy.Header{"Content-Type": {"application/json"}}}
}

// Base is the proxy's address in the cases.
const Base = "https://proxy.test"

var update = flag.Bool("update", false, "write the expectations of the cases in testdata anew")

// Run checks an adapter against the *.txtar files of fsys. With -update it writes the
// adapter's results as expectations to testdata/ under the same names; review the
// difference.
func Run(t *testing.T, a Adapter, fsys fs.FS) {
	for _, c := range cases(t, fsys) {
		t.Run(strings.TrimSuffix(c.name, ".txtar"), func(t *testing.T) {
			got := answer(t, a, c)
			if *update {
				must.Do(t, os.WriteFile(filepath.Join("testdata", c.name), got.format(), 0o644))
			} else {
				for _, s := range expectations {
					expect.Equal(t, c.text(s), got.text(s), s)
				}
			}
			t.Run("refuse", func(t *testing.T) { refusals(t, a, c.Request) })
			t.Run("laws", func(t *testing.T) { Laws(t, a, c.Request, c.Body, c.Reply, nil) })
		})
	}
}

// cases are the *.txtar files of fsys, in the order of their names.
func cases(tb testing.TB, fsys fs.FS) []*Case {
	names, err := fs.Glob(fsys, "*.txtar")
	must.That(tb, err == nil && len(names) > 0, "no cases: %v", err)
	all := make([]*Case, len(names))
	for i, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err == nil {
			all[i], err = ParseCase(data)
		}
		must.Do(tb, err, name)
		all[i].name = name
	}
	return all
}

// answer returns a case with the adapter's results.
func answer(t *testing.T, a Adapter, c *Case) *Case {
	t.Helper()
	out := c.asked()
	rt, ok := a.Route(c.Request)
	out.set("route", renderRoute(rt, ok))
	if !ok || rt.Pass {
		return out
	}
	op, err := a.Decode(rt, c.Request, c.Body)
	if err != nil {
		out.set("malformed", renderError(t, err))
		return out
	}
	out.set("operation", renderOperation(op))
	if c.has("gate") || c.has("forward") {
		must.Do(t, c.rule(op))
		body, query, err := a.Encode(rt, c.Request, c.Body, op)
		must.Do(t, err, "Encode")
		text := string(body)
		if query != c.Request.Query {
			text = "query: " + query + "\n" + text
		}
		out.set("forward", text+"\n")
	}
	if !c.hasReply() {
		return out
	}
	reading, err := a.Read(rt, c.Request, c.Reply)
	if err != nil {
		out.set("reading", "error\n")
		return out
	}
	out.set("reading", renderReading(reading))
	if c.has("drop") || c.has("answer") {
		c.drop(reading)
		body, err := a.Rewrite(rt, c.Request, c.Reply, reading)
		must.Do(t, err, "Rewrite")
		if bytes.Equal(body, c.Reply.Body) {
			out.set("answer", "unchanged\n")
		} else {
			out.set("answer", string(body)+"\n")
		}
	}
	return out
}
