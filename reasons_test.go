package memproxy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Policies and queries of the log know every reason that a record may have.
func TestReasonCodesAreAllOfThem(t *testing.T) {
	file := must.Get(parser.ParseFile(token.NewFileSet(), "reasons.go", nil, 0))(t)
	codes, n := memproxy.ReasonCodes(), 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "ReasonCode" {
			return true
		}
		value := must.Get(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
		if n++; !slices.Contains(codes, memproxy.ReasonCode(value)) {
			t.Errorf("%s is not listed", value)
		}
		return true
	})
	expect.Equal(t, n, len(codes))
}

// Proves CARD-6: signals name each code once, the one that led to the verdict first.
func TestCodes(t *testing.T) {
	t.Parallel()
	found := memproxy.Reason{Code: memproxy.ScreenFinding}
	got := memproxy.Codes([]memproxy.Reason{{Code: memproxy.ScreenRisk}, found, found, {Code: memproxy.FieldForbidden}, {Code: memproxy.ScreenRisk}})
	expect.List(t, got, []string{"screen.risk", "screen.finding", "field.forbidden"})
}
