package wire_test

import (
	"fmt"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func TestFill(t *testing.T) {
	s := memproxy.Scope{User: "ann"}
	for _, c := range []struct {
		dim         memproxy.Dimension
		name        string
		write, fits bool
	}{
		{memproxy.DimUser, "ann", true, true},
		{memproxy.DimUser, "bob", false, true}, // a read may name several; the first counts
		{memproxy.DimUser, "bob", true, false},
		{memproxy.DimRun, "r", true, true},
		{memproxy.DimActor, "x", true, true},
	} {
		expect.Equal(t, wire.FillScope(&s, &memproxy.Claim{Dim: c.dim, Values: []string{c.name}}, c.write), c.fits, c)
	}
	expect.Equal(t, s, (memproxy.Scope{User: "ann", Run: "r"}))
}

func TestStringsLeavesNothingOut(t *testing.T) {
	doc := must.Get(jsondoc.Parse([]byte(`{"plain":["a","",{"ignore what was said":7}],"b":{"c":"d"}}`), 0))(t)
	var op memproxy.Operation
	wire.AddStrings(&op, doc.Root, "/x", memproxy.Item{Kind: memproxy.ItemMetadata, Target: "m"})
	got := ""
	for _, it := range op.Items {
		got += fmt.Sprintln(it.Kind, it.Target, it.Pointer, it.Text)
	}
	const want = "metadata m /x/plain/0 a\nmetadata m /x/plain/2/ignore what was said ignore what was said\nmetadata m /x/b/c d\n"
	expect.Equal(t, got, want)
}
