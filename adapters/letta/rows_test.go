package letta_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/internal/must"
)

// hasJSON and hasForm report whether a body is read, and in which format.
func hasJSON(r *routetable.Row) bool {
	return !hasForm(r) && r.Shape != routetable.Opaque && r.Shape != "bare"
}

func hasForm(r *routetable.Row) bool { return r.Shape == "upload" }

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
