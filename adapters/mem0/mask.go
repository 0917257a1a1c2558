package mem0

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Masks implements the gate's Extractor: names can be replaced in bodies and in query
// parameters of their own, but not in paths or in JSON inside the query.
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

func replaceHidden(op *memproxy.Operation, text string) string {
	for id, as := range op.Hidden {
		text = strings.ReplaceAll(text, id, as)
	}
	return text
}

// replaceHiddenInBody replaces the hidden ids in a body, except in members that are
// removed.
func replaceHiddenInBody(e *jsondoc.Edits, doc *jsondoc.Doc, op *memproxy.Operation) error {
	texts := map[string]string{}
	for i := range op.Refs {
		ptr := op.Refs[i].Pointer
		if _, hidden := op.Hidden[op.Refs[i].ID]; hidden && strings.HasPrefix(ptr, "/") && !slices.ContainsFunc(op.Unclaimed, func(gone string) bool { return strings.HasPrefix(ptr, gone) }) {
			texts[ptr] = replaceHidden(op, doc.At(ptr).Text())
		}
	}
	return e.Texts(texts)
}

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
		for _, one := range oneOrMore(v) {
			if as, masked := op.Masked[memproxy.OwnerID(c.Dim, one.Text())]; masked {
				e.Replace(one, jsondoc.Quote(as))
			}
		}
	}
}
