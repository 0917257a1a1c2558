package letta

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// Routed returns a request and its route.
func Routed(t testing.TB, a *Adapter, method, target string) (memproxy.Route, memproxy.Request) {
	t.Helper()
	path, query, _ := strings.Cut(target, "?")
	req := memproxy.Request{Method: method, EscapedPath: path, Query: query, Header: memproxy.Header{}}
	rt, ok := a.Route(req)
	if !ok {
		t.Fatalf("%s %s is no route", method, target)
	}
	return rt, req
}

// NamesObject reports whether a parameter of the table's paths names an object by its id.
func NamesObject(param string) bool { return paramKind(param) != "" }

// Bodied reports whether the route's row reads a body, and in which format.
func (a *Adapter) Bodied(id string) (json, form bool) {
	switch a.Row(id).shape {
	case opaque, bare:
		return false, false
	case upload:
		return false, true
	}
	return true, false
}
