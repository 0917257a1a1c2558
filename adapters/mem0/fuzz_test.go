package mem0_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// What is decoded is decoded the same every time, and a write leaves no text
// out.
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
		if err != nil || len(body) == 0 || op.Kind != memproxy.Learn && op.Kind != memproxy.Correct {
			return
		}
		doc, err := jsondoc.Parse(body, 0)
		if err != nil {
			t.Fatalf("decoded and not JSON: %q", body)
		}
		adaptertest.Seen(t, op, doc.Root, "", own(op))
	})
}

// own are the strings that the format keeps to itself.
func own(op *memproxy.Operation) func(ptr, text string) bool {
	return func(ptr, text string) bool {
		switch {
		case strings.HasPrefix(ptr, "/filters"): // they select and are not stored
		case slices.Contains(op.Targets, text) && (strings.HasSuffix(ptr, "memory_id") || ptr == "/memory_export_id"):
		case strings.HasPrefix(ptr, "/messages/") && strings.HasSuffix(ptr, "/role"):
		case strings.HasSuffix(ptr, "/type"): // the type of a part
		default:
			return false
		}
		return true
	}
}

// Unknown fields, order and numbers survive a patch, and only what was meant
// to change does.
func FuzzEncode(f *testing.F) {
	adaptertest.EachCase(f, func(c *adaptertest.Case) {
		f.Add(c.Request.Method, c.Request.EscapedPath, c.Request.Query, c.Body)
	})
	a := adapter(f)
	f.Fuzz(func(t *testing.T, method, path, query string, body []byte) {
		req := memproxy.Request{Method: method, EscapedPath: path, Query: query}
		if rt, ok := a.Route(req); ok && !rt.Pass {
			adaptertest.Patches(t, a, rt, req, body)
		}
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
