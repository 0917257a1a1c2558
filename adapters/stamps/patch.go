package stamps

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Patch collects the changes to a body: lowered confidences, and for each object the
// removal of memproxy's own keys and the added members.
type Patch struct {
	*jsondoc.Edits
	doc     *jsondoc.Doc
	objects []*jsondoc.Value
	added   map[*jsondoc.Value][][]byte
	removed []*jsondoc.Value // members' values
}

// Needed reports whether a body needs a patch: it is stamped, has reserved keys, or a
// claim in it is lowered or removed.
func Needed(op *memproxy.Operation) bool {
	return op.Stamp != nil || len(op.Reserved) > 0 ||
		slices.ContainsFunc(op.Attributions, func(a memproxy.Attribution) bool { return a.Removed }) ||
		slices.ContainsFunc(op.Hints, lowered)
}

func lowered(h memproxy.Hint) bool { return h.Effective != h.Claimed || !h.Legible }

// NewPatch returns a patch that lowers confidences and removes reserved keys.
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

// Remove removes a member.
func (p *Patch) Remove(ptr string) {
	p.Add(p.doc.At(ptr[:strings.LastIndexByte(ptr, '/')]))
	p.removed = append(p.removed, p.doc.At(ptr))
}

// Add adds members to an object. Other values are unchanged.
func (p *Patch) Add(v *jsondoc.Value, members ...[]byte) {
	if v == nil || v.Kind != jsondoc.Object {
		return
	}
	if _, known := p.added[v]; !known {
		p.objects = append(p.objects, v)
	}
	p.added[v] = append(p.added[v], members...)
}

// WithoutReserved returns metadata without memproxy's own members, as the patch leaves it.
func (p *Patch) WithoutReserved(meta *jsondoc.Value) []byte {
	return WithoutReserved(p.Edits, meta, slices.Concat(p.objects, p.removed))
}

// Stamp adds a stamp to a holder's metadata. Kept members are added if it has none.
// Over makes a backend that merges metadata forget the members of an older stamp.
func (p *Patch) Stamp(op *memproxy.Operation, holder, meta *jsondoc.Value, kept [][]byte, over bool) {
	if meta != nil && meta.Kind == jsondoc.Object {
		p.Add(meta, Members(op.StampFor(p.WithoutReserved(meta)), over)...)
		return
	}
	all := Object(append(kept, Members(op.StampFor(Object(kept)), over)...))
	if meta == nil {
		p.Add(holder, append([]byte(`"metadata":`), all...))
	} else {
		p.Replace(meta, all) // null, or an invalid value in an update
	}
}

// Apply returns the patched body.
func (p *Patch) Apply() []byte {
	p.settle()
	return p.Edits.Apply()
}

// Empty reports whether the patch changes nothing.
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
