package letta_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/adapters/routetable/routetabletest"
)

// What is decoded is decoded the same every time, and a write or a run leaves
// no text out.
func FuzzDecode(f *testing.F) {
	adaptertest.EachCase(f, func(c *adaptertest.Case) {
		f.Add(c.Request.Method, c.Request.EscapedPath, c.Request.Query, c.Request.Header.Get("Content-Type"), c.Body)
	})
	a := adapter(f)
	f.Fuzz(func(t *testing.T, method, path, query, typ string, body []byte) {
		req := memproxy.Request{Method: method, EscapedPath: path, Query: query, Header: memproxy.Header{"Content-Type": {typ}}}
		rt, ok := a.Route(req)
		if !ok || rt.Pass {
			return
		}
		adaptertest.Determined(t, a, rt, req, body)
		op, err := a.Decode(rt, req, body)
		if err != nil || len(body) == 0 || !rt.Kind.Writes() || strings.Contains(strings.ToLower(typ), "multipart") {
			return
		}
		doc, err := jsondoc.Parse(body, 0)
		if err != nil {
			t.Fatalf("decoded and not JSON: %q", body)
		}
		if doc.Root.Kind == jsondoc.String { // JSON in JSON, see TestImportString
			return
		}
		adaptertest.Seen(t, op, doc.Root, "", own(op))
	})
}

// own are the strings that the format keeps to itself.
func own(op *memproxy.Operation) func(ptr, text string) bool {
	return func(ptr, text string) bool {
		return slices.Contains(op.Targets, text) || plain(text) && (strings.HasSuffix(ptr, "/role") || strings.HasSuffix(ptr, "/type"))
	}
}

// plain reports whether a text is a name.
func plain(s string) bool {
	return len(s) <= 40 && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("_-.$0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r)
	})
}

// Unknown fields, order and numbers survive a patch, and only what was meant
// to change does.
func FuzzEncode(f *testing.F) {
	adaptertest.EachCase(f, func(c *adaptertest.Case) {
		f.Add(c.Request.Method, c.Request.EscapedPath, c.Request.Query, c.Request.Header.Get("Content-Type"), c.Body)
	})
	a := adapter(f)
	f.Fuzz(func(t *testing.T, method, path, query, typ string, body []byte) {
		req := memproxy.Request{Method: method, EscapedPath: path, Query: query, Header: memproxy.Header{"Content-Type": {typ}}}
		rt, ok := a.Route(req)
		if !ok || rt.Pass {
			return
		}
		if doc, err := jsondoc.Parse(body, 0); err == nil && doc.Root.Kind == jsondoc.String {
			return // JSON in JSON, see TestImportString
		}
		adaptertest.Patches(t, a, rt, req, body)
	})
}

// An answer of any bytes is read or refused, and thinning it touches nothing
// else.
func FuzzRead(f *testing.F) {
	adaptertest.EachCase(f, func(c *adaptertest.Case) {
		f.Add(c.Request.Method, c.Request.EscapedPath, c.Request.Query, c.Body, c.Reply.Body)
	})
	a := adapter(f)
	f.Fuzz(func(t *testing.T, method, path, query string, body, answer []byte) {
		req := memproxy.Request{Method: method, EscapedPath: path, Query: query, Base: adaptertest.Base}
		rt, ok := a.Route(req)
		if !ok || rt.Pass {
			return
		}
		if _, err := a.Decode(rt, req, body); err != nil {
			return
		}
		adaptertest.Thins(t, a, rt, req, memproxy.Reply{Status: 200, Body: answer})
	})
}

// Proves EDGE-3: the index answers what the table says.
func FuzzRoute(f *testing.F) {
	routetabletest.Fuzz(f, adapter(f), routetable.Options{Alias: map[string]string{"latest": "v1"}})
}

// What is located is what was asked for, or nobody's.
func FuzzLocated(f *testing.F) {
	f.Add("block-1", 200, []byte(`{"id":"block-1","label":"human","limit":5,"metadata":{"a":1}}`))
	f.Add("agent-1/human", 200, []byte(`{"id":"block-1","label":"human"}`))
	f.Add("passage-1", 200, []byte(`[{"id":"passage-1","text":"t"}]`))
	f.Add("file-1", 404, []byte(`{"detail":"not found"}`))
	a := adapter(f)
	rt := memproxy.Route{ID: "letta.modify_block", Params: map[string]string{"agent_id": "agent-1"}}
	f.Fuzz(func(t *testing.T, target string, status int, body []byte) {
		m, err := a.Located(rt, target, memproxy.Reply{Status: status, Body: body})
		if err == nil && m.ID != "" && m.ID != target && !strings.Contains(target, "/") {
			t.Errorf("asked for %q and got %q", target, m.ID)
		}
	})
}
