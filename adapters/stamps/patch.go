package stamps

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Patch collects the changes to a body: lowered confidences, removed or replaced
// attributions, and for each object the removed reserved keys and the added members.
type Patch struct {
	*jsondoc.Edits
	doc     *jsondoc.Doc
	objects []patched               // by position
	removed map[*jsondoc.Value]bool // values of members
}

// patched is an object that loses members, and those that it gets.
type patched struct {
	*jsondoc.Value
	added [][]byte
}

// Needed reports whether a body needs a patch: it is stamped, has reserved keys, or a
// claim in it is lowered or removed.
func Needed(op *memproxy.Operation) bool {
	return op.Stamp != nil || len(op.Reserved) > 0 ||
		slices.ContainsFunc(op.Attributions, func(a memproxy.Attribution) bool { return a.Removed }) ||
		slices.ContainsFunc(op.ConfidenceClaims, lowered)
}

func lowered(h memproxy.ConfidenceClaim) bool { return h.Effective != h.Claimed || !h.Legible }

// NewPatch returns a patch that lowers confidences, removes reserved keys, and removes or
// replaces attributions.
func NewPatch(doc *jsondoc.Doc, op *memproxy.Operation) (*Patch, error) {
	p := &Patch{Edits: doc.Edit(), doc: doc, removed: map[*jsondoc.Value]bool{}}
	for _, h := range op.ConfidenceClaims {
		if v := doc.At(h.Pointer); v != nil && lowered(h) {
			p.Replace(v, appendPerMille(nil, h.Effective))
		}
	}
	for _, ptr := range op.Reserved {
		p.Add(doc.At(ptr[:strings.LastIndexByte(ptr, '/')]))
	}
	instead := map[string]string{}
	for _, at := range op.Attributions {
		switch {
		case !at.Removed:
		case at.Instead != "":
			instead[at.Pointer] = at.Instead
		default:
			p.Remove(at.Pointer)
		}
	}
	return p, p.Texts(instead)
}

// Remove removes a member.
func (p *Patch) Remove(ptr string) {
	p.Add(p.doc.At(ptr[:strings.LastIndexByte(ptr, '/')]))
	p.removed[p.doc.At(ptr)] = true
}

// Add adds members to an object. Other values are unchanged.
func (p *Patch) Add(v *jsondoc.Value, members ...[]byte) {
	if v == nil || v.Kind != jsondoc.Object {
		return
	}
	i, known := p.from(v)
	if !known {
		p.objects = slices.Insert(p.objects, i, patched{Value: v})
	}
	p.objects[i].added = append(p.objects[i].added, members...)
}

// from returns the index of the first object that begins at a value or after it, and whether
// it is the value.
func (p *Patch) from(v *jsondoc.Value) (int, bool) {
	return slices.BinarySearchFunc(p.objects, v.Start, func(o patched, at int) int { return o.Start - at })
}

// Kept returns the members of a metadata object as the patch leaves them, without memproxy's own
// and those in which the patch adds or removes something.
func (p *Patch) Kept(meta *jsondoc.Value) []memproxy.Member {
	out := make([]memproxy.Member, 0, len(meta.Members))
	for _, m := range meta.Members {
		value, whole := p.Edits.Kept(m.Value)
		i, _ := p.from(m.Value)
		if memproxy.Reserved(m.Name) || !whole || p.removed[m.Value] || i < len(p.objects) && p.objects[i].End <= m.Value.End {
			continue
		}
		out = append(out, memproxy.Member{Name: m.Name, Value: value})
	}
	return out
}

// Stamp adds a stamp to a holder's metadata. If the holder has no metadata, kept members are
// added. Set over for a backend that merges metadata, so that no member of an older stamp
// remains.
func (p *Patch) Stamp(op *memproxy.Operation, holder, meta *jsondoc.Value, kept [][]byte, over bool) {
	if meta != nil && meta.Kind == jsondoc.Object {
		p.Add(meta, Members(op.StampFor(p.Kept(meta)), over))
		return
	}
	var members []memproxy.Member
	if doc, err := jsondoc.Parse(Object(kept...), 0); err == nil {
		members = appendMembers(nil, doc.Root, doc)
	}
	all := Object(append(kept, Members(op.StampFor(members), over))...)
	if meta == nil {
		p.Add(holder, append([]byte(`"metadata":`), all...))
	} else {
		p.Replace(meta, all) // null, or an invalid value in an update
	}
}

// Apply returns the patched body.
func (p *Patch) Apply() []byte {
	p.applyObjects()
	return p.Edits.Apply()
}

// Empty reports whether the patch changes nothing.
func (p *Patch) Empty() bool {
	p.applyObjects()
	return p.Edits.Empty()
}

func (p *Patch) applyObjects() {
	for _, o := range p.objects {
		p.Object(o.Value, func(m *jsondoc.Member) bool { return memproxy.Reserved(m.Name) || p.removed[m.Value] }, o.added)
	}
	p.objects = nil
}
