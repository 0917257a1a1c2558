package letta_test

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/internal/must"
)

// row is a line of routes.txt.
type row struct {
	method, path, id, shape string
	kind                    memproxy.Kind
	flags                   []string
}

//go:embed routes.txt
var routeTable string

var rows = func() (out []row) {
	for line := range strings.Lines(routeTable) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			out = append(out, row{method: f[0], path: f[1], id: "letta." + f[2], kind: memproxy.Kind(f[3]), shape: f[4], flags: f[5:]})
		}
	}
	return out
}()

func rowOf(id string) row {
	return rows[slices.IndexFunc(rows, func(r row) bool { return r.id == id })]
}

// is reports whether the row has one of the flags.
func (r row) is(flags ...string) bool {
	return slices.ContainsFunc(flags, func(f string) bool { return slices.Contains(r.flags, f) })
}

// json and form report whether a body is read, and in which format.
func (r row) json() bool { return !r.form() && r.shape != "opaque" && r.shape != "bare" }

func (r row) form() bool { return r.shape == "upload" }

// routed returns a request and its route.
func routed(t testing.TB, a *letta.Adapter, method, target string) (memproxy.Route, memproxy.Request) {
	t.Helper()
	path, query, _ := strings.Cut(target, "?")
	req := memproxy.Request{Method: method, EscapedPath: path, Query: query, Header: memproxy.Header{}}
	rt, ok := a.Route(req)
	if !ok {
		t.Fatalf("%s %s is no route", method, target)
	}
	return rt, req
}

func decode(t testing.TB, a *letta.Adapter, method, target, body string) *memproxy.Operation {
	t.Helper()
	rt, req := routed(t, a, method, target)
	op, err := a.Decode(rt, req, []byte(body))
	must.Do(t, err, method, target, body)
	return op
}
