package stamps

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// A Patch gathers what happens to a body: claimed confidences are lowered, and each
// object that is named loses the proxy's own keys and gains what is added to it.
type Patch struct {
	*jsondoc.Edits
	doc     *jsondoc.Doc
	objects []*jsondoc.Value
	added   map[*jsondoc.Value][][]byte
	removed []*jsondoc.Value // members' values
}

// Needed reports whether a body needs a patch: it is stamped, holds keys that
// are reserved, or a claim in it is lowered or taken off.
func Needed(op *memproxy.Operation) bool {
	return op.Stamp != nil || len(op.Reserved) > 0 ||
		slices.ContainsFunc(op.Attributions, func(a memproxy.Attribution) bool { return a.Removed }) ||
		slices.ContainsFunc(op.Hints, lowered)
}

func lowered(h memproxy.Hint) bool { return h.Effective != h.Claimed || !h.Legible }

// NewPatch begins with what is lowered, and with the keys that were reserved.
func NewPatch(doc *jsondoc.Doc, op *memproxy.Operation) *Patch {
	p := &Patch{Edits: doc.Edit(), doc: doc, added: map[*jsondoc.Value][][]byte{}}
	for _, h := range op.Hints {
		if v := doc.At(h.Pointer); v != nil && lowered(h) {
			p.Replace(v, PerMille(h.Effective))
		}
	}
	for _, ptr := range op.Reserved {
		p.Add(doc.At(ptr[:strings.LastIndexByte(ptr, '/')]))
	}
	return p
}

// Remove takes a member out.
func (p *Patch) Remove(ptr string) {
	p.Add(p.doc.At(ptr[:strings.LastIndexByte(ptr, '/')]))
	p.removed = append(p.removed, p.doc.At(ptr))
}

// Add gives an object members. What is no object is left as it is.
func (p *Patch) Add(v *jsondoc.Value, members ...[]byte) {
	if v == nil || v.Kind != jsondoc.Object {
		return
	}
	if _, known := p.added[v]; !known {
		p.objects = append(p.objects, v)
	}
	p.added[v] = append(p.added[v], members...)
}

// Beside is the object of what metadata will hold besides the proxy's own members.
func (p *Patch) Beside(meta *jsondoc.Value) []byte {
	return Beside(p.Edits, meta, slices.Concat(p.objects, p.removed))
}

// Stamp stamps what a holder has, or is to have, as metadata. Kept members go along
// where it has none. Over has a backend that merges forget the members of an older
// stamp.
func (p *Patch) Stamp(op *memproxy.Operation, holder, meta *jsondoc.Value, kept [][]byte, over bool) {
	if meta != nil && meta.Kind == jsondoc.Object {
		p.Add(meta, Members(op.StampBeside(p.Beside(meta)), over)...)
		return
	}
	all := Object(append(kept, Members(op.StampBeside(Object(kept)), over)...))
	if meta == nil {
		p.Add(holder, append([]byte(`"metadata":`), all...))
	} else {
		p.Replace(meta, all) // null, or an invalid value in an update
	}
}

// Apply is the body with everything done. Empty reports whether nothing is.
func (p *Patch) Apply() []byte {
	p.settle()
	return p.Edits.Apply()
}

// Empty reports whether the body stays as it is.
func (p *Patch) Empty() bool {
	p.settle()
	return p.Edits.Empty()
}

func (p *Patch) settle() {
	for _, v := range p.objects {
		p.Object(v, func(name string) bool { return memproxy.Reserved(name) || slices.Contains(p.removed, v.Get(name)) }, p.added[v])
	}
	p.objects = nil
}
