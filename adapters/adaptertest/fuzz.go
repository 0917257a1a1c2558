package adaptertest

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// FormatText reports whether a string in a body belongs to the format (a role, a type, a
// selector), so that it need not be in the operation.
type FormatText func(op *memproxy.Operation, ptr, text string) bool

// Fuzz checks the laws with arbitrary requests and answers, seeded with the cases of
// testdata.
func Fuzz(f *testing.F, a Adapter, own FormatText) {
	for _, c := range cases(f, os.DirFS("testdata")) {
		f.Add(c.Request.Method, c.Request.EscapedPath, c.Request.Query, c.Request.Header.Get("Content-Type"), c.Body, c.Reply.Body)
	}
	f.Fuzz(func(t *testing.T, method, path, query, typ string, body, answer []byte) {
		header := memproxy.Header{"Content-Type": {typ}}
		req := memproxy.Request{Method: method, EscapedPath: path, Query: query, Header: header, Base: Base}
		Laws(t, a, req, body, memproxy.Reply{Status: 200, Body: answer}, own)
	})
}

// Generated checks the laws with many generated documents, the same ones in every run.
func Generated(t *testing.T, a Adapter, f *Format, own FormatText) {
	source := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 400)
	for range 5000 / ring.Share(20, 100) {
		for i := range data {
			data[i] = byte(source.Uint32())
		}
		f.laws(t, a, own, data)
	}
}

// FuzzGenerated is Generated with bytes that the fuzzer chooses.
func FuzzGenerated(f *testing.F, a Adapter, format *Format, own FormatText) {
	for i := range byte(100) {
		f.Add([]byte(strings.Repeat(string(rune(i))+"abcdefghij", 20)))
	}
	f.Fuzz(func(t *testing.T, data []byte) { format.laws(t, a, own, data) })
}

func (f *Format) laws(t *testing.T, a Adapter, own FormatText, data []byte) {
	t.Helper()
	req, body, answer := f.Request(&Dice{f: f, bytes: data})
	req.Base = Base
	Laws(t, a, req, []byte(body), memproxy.Reply{Status: 200, Body: []byte(answer)}, own)
	must.That(t, !t.Failed(), "%s %s?%s\n%s\n%s", req.Method, req.EscapedPath, req.Query, body, answer)
}

// stores reports whether the backend stores the body of an operation of a kind.
func stores(k memproxy.Kind) bool {
	return k.Writes() && k != memproxy.Attach && k != memproxy.Forget
}

// seen checks that every string of a value is in the operation, except those of the format.
func seen(t *testing.T, op *memproxy.Operation, v *jsondoc.Value, ptr string, own FormatText) {
	t.Helper()
	for _, m := range v.Members {
		seen(t, op, m.Value, jsondoc.Child(ptr, m.Name), own)
	}
	for i, e := range v.Elems {
		seen(t, op, e, jsondoc.Index(ptr, i), own)
	}
	if v.Kind != jsondoc.String || v.Text() == "" {
		return
	}
	under := func(p string) bool { return ptr == p || strings.HasPrefix(ptr, p+"/") }
	switch {
	case slices.ContainsFunc(op.Items, func(it memproxy.Item) bool { return it.Pointer == ptr && it.Text == v.Text() }):
	case slices.ContainsFunc(op.Claims, func(c memproxy.Claim) bool { return under(c.Pointer) && slices.Contains(c.Values, v.Text()) }):
	case slices.ContainsFunc(op.Claims, func(c memproxy.Claim) bool { return under(c.Pointer) && c.Op == memproxy.ClaimUnclear }):
	case slices.ContainsFunc(op.Backdated, func(b memproxy.ClientTime) bool { return under(b.Pointer) }):
	case slices.ContainsFunc(op.Reserved, under), slices.ContainsFunc(op.Unclaimed, under):
	case own(op, ptr, v.Text()):
	default:
		t.Errorf("%s is not in the operation: %q", ptr, v.Text())
	}
}
