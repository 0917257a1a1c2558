package mem0_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// eachCase gives the cases of testdata as seeds.
func eachCase(f *testing.F, add func(*adaptertest.Case)) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		f.Fatal("no cases", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		c, err := adaptertest.ParseCase(data)
		if err != nil {
			f.Fatal(name, err)
		}
		add(c)
	}
}

// What is decoded is decoded the same every time, and a write leaves no text
// out.
func FuzzDecode(f *testing.F) {
	eachCase(f, func(c *adaptertest.Case) {
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
		seen(t, op, doc.Root, "")
	})
}

// seen wants every string of a value in the operation.
func seen(t *testing.T, op *memproxy.Operation, v *jsondoc.Value, ptr string) {
	t.Helper()
	for _, m := range v.Members {
		seen(t, op, m.Value, jsondoc.Child(ptr, m.Name))
	}
	for i, e := range v.Elems {
		seen(t, op, e, jsondoc.Index(ptr, i))
	}
	if v.Kind != jsondoc.String || v.Text() == "" || strings.HasPrefix(ptr, "/filters") {
		return // filters select and are not stored
	}
	under := func(p string) bool { return ptr == p || strings.HasPrefix(ptr, p+"/") }
	switch {
	case slices.ContainsFunc(op.Items, func(it memproxy.Item) bool { return it.Pointer == ptr && it.Text == v.Text() }):
	case slices.ContainsFunc(op.Claims, func(c memproxy.Claim) bool { return under(c.Pointer) && slices.Contains(c.Values, v.Text()) }):
	case slices.ContainsFunc(op.Claims, func(c memproxy.Claim) bool { return under(c.Pointer) && c.Op == memproxy.ClaimUnclear }):
	case slices.ContainsFunc(op.Backdated, func(b memproxy.Stamped) bool { return under(b.Pointer) }):
	case slices.ContainsFunc(op.Reserved, under):
	case slices.Contains(op.Targets, v.Text()) && strings.HasSuffix(ptr, "memory_id"), slices.Contains(op.Targets, v.Text()) && ptr == "/memory_export_id":
	case strings.HasPrefix(ptr, "/messages/") && (strings.HasSuffix(ptr, "/role") || strings.HasSuffix(ptr, "/type")):
	case strings.HasSuffix(ptr, "/type"): // the type of a part
	default:
		t.Errorf("%s is not in the operation: %q", ptr, v.Text())
	}
}

// Unknown fields, order and numbers survive a patch, and only what was meant
// to change does.
func FuzzEncode(f *testing.F) {
	eachCase(f, func(c *adaptertest.Case) {
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
	eachCase(f, func(c *adaptertest.Case) {
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
