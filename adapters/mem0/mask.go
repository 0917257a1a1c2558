package mem0

import (
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Masks implements the gate's Masker: names can be replaced in bodies and as
// separate parameters, but not in paths or in JSON inside the query.
func (a *Adapter) Masks(_ memproxy.Route, op *memproxy.Operation) bool {
	for i := range op.Claims {
		c := &op.Claims[i]
		if c.Op != memproxy.ClaimIs && c.Op != memproxy.ClaimExclude || c.Dim == memproxy.DimActor || strings.HasPrefix(c.Pointer, "/") {
			continue
		}
		name, inQuery := strings.CutPrefix(c.Pointer, "query:")
		if _, alone := dimOf(name); !inQuery || !alone {
			return false
		}
	}
	return true
}

// maskBody replaces masked names.
func maskBody(e *jsondoc.Edits, doc *jsondoc.Doc, op *memproxy.Operation) {
	if len(op.Masked) == 0 {
		return
	}
	for i := range op.Claims {
		c := &op.Claims[i]
		if c.Op != memproxy.ClaimIs && c.Op != memproxy.ClaimExclude || !strings.HasPrefix(c.Pointer, "/") {
			continue
		}
		v := doc.At(c.Pointer)
		if v == nil {
			continue
		}
		all := v.Elems
		if v.Kind == jsondoc.String {
			all = []*jsondoc.Value{v}
		}
		for _, one := range all {
			if as, masked := op.Masked[memproxy.OwnerID(c.Dim, one.Text())]; masked {
				e.Replace(one, strconv.AppendQuote(nil, as)) // an id of our own: ASCII
			}
		}
	}
}
