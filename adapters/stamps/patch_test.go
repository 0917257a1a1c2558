package stamps_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves CARD-2, MFW-1: bytes outside of a patch are unchanged.
func TestPatch(t *testing.T) {
	const body = `{ "metadata" : {"memproxy_id":"mine", "kept": 1,"role":"system"}, "confidence":0.90, "n":[1,2] }`
	for name, tc := range map[string]struct {
		op   memproxy.Operation
		do   func(*stamps.Patch, *jsondoc.Doc)
		want string // "": unchanged
	}{
		"nothing":             {},
		"a claim that stands": {op: memproxy.Operation{ConfidenceClaims: []memproxy.ConfidenceClaim{{Pointer: "/confidence", Claimed: 900, Effective: 900, Legible: true}}}},
		"a claim is lowered":  {op: memproxy.Operation{ConfidenceClaims: []memproxy.ConfidenceClaim{{Pointer: "/confidence", Claimed: 900, Effective: 700, Legible: true}}}, want: `{ "metadata" : {"memproxy_id":"mine", "kept": 1,"role":"system"}, "confidence":0.7, "n":[1,2] }`},
		"a reserved key":      {op: memproxy.Operation{Reserved: []string{"/metadata/memproxy_id"}}, want: `{ "metadata" : {"kept": 1,"role":"system"}, "confidence":0.90, "n":[1,2] }`},
		"a member":            {do: func(p *stamps.Patch, _ *jsondoc.Doc) { p.Remove("/metadata/role") }, want: `{ "metadata" : {"kept": 1}, "confidence":0.90, "n":[1,2] }`},
		"what is added":       {do: func(p *stamps.Patch, d *jsondoc.Doc) { p.Add(d.At("/metadata"), []byte(`"a":2`)) }, want: `{ "metadata" : {"kept": 1,"role":"system","a":2}, "confidence":0.90, "n":[1,2] }`},
		"to no object":        {do: func(p *stamps.Patch, d *jsondoc.Doc) { p.Add(d.At("/n"), []byte(`"a":2`)); p.Add(nil) }},
		"twice to one object": {do: func(p *stamps.Patch, d *jsondoc.Doc) {
			p.Remove("/metadata/kept")
			p.Add(d.At("/metadata"), []byte(`"a":2`))
		}, want: `{ "metadata" : {"role":"system","a":2}, "confidence":0.90, "n":[1,2] }`},
	} {
		doc := must.Get(jsondoc.Parse([]byte(body), 0))(t)
		p := must.Get(stamps.NewPatch(doc, &tc.op))(t)
		if tc.do != nil {
			tc.do(p, doc)
		}
		if empty := p.Empty(); empty != (tc.want == "") {
			t.Errorf("%s: empty %v", name, empty)
		}
		if got := string(p.Apply()); tc.want != "" && got != tc.want || tc.want == "" && got != body {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A body with many objects is patched in time that grows with its length and not faster.
func TestPatchIsLinear(t *testing.T) {
	ring.Slow(t, "measures time")
	ring.Linear(t, "objects", 1<<11, func(n int) func() {
		doc := must.Get(jsondoc.Parse([]byte("["+strings.Repeat(`{"metadata":{"memproxy_x":1}},`, n)+"1]"), 0))(t)
		s := stamp()
		op := memproxy.Operation{Stamp: &s}
		for i := range n {
			op.Reserved = append(op.Reserved, jsondoc.Index("", i)+"/metadata/memproxy_x")
		}
		return func() {
			p := must.Get(stamps.NewPatch(doc, &op))(t)
			for _, e := range doc.Root.Elems[:n] {
				p.Stamp(&op, e, e.Get("metadata"), nil, false)
			}
			p.Apply()
		}
	})
	ring.Linear(t, "lowered confidences", 1<<11, func(n int) func() {
		claim := `{"confidence":0.9}`
		doc := must.Get(jsondoc.Parse([]byte(`{"metadata":{"0":`+claim+numbered(n, `,"%d":`+claim)+`}}`), 0))(t)
		s := stamp()
		op := memproxy.Operation{Stamp: &s}
		for i := range n + 1 {
			op.ConfidenceClaims = append(op.ConfidenceClaims, memproxy.ConfidenceClaim{Pointer: jsondoc.Index("/metadata", i) + "/confidence", Claimed: 900, Effective: 700, Legible: true})
		}
		return func() {
			p := must.Get(stamps.NewPatch(doc, &op))(t)
			p.Stamp(&op, doc.Root, doc.At("/metadata"), nil, false)
			p.Apply()
		}
	})
}

// numbered returns a format for the numbers from 1 to n.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i+1)
	}
	return b.String()
}
