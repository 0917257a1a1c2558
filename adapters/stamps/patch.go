package stamps

import (
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Patch collects the changes to a body: lowered confidences, removed or replaced
// attributions, and added members. Every object that it changes loses its reserved keys.
type Patch struct{ *jsondoc.Edits }

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
	p := &Patch{doc.Edit()}
	p.Unwanted = memproxy.Reserved
	for _, h := range op.ConfidenceClaims {
		if v := doc.At(h.Pointer); v != nil && lowered(h) {
			p.Replace(v, appendPerMille(nil, h.Effective))
		}
	}
	for _, ptr := range op.Reserved {
		p.Remove(ptr)
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

// Add adds members to an object. Other values are unchanged.
func (p *Patch) Add(v *jsondoc.Value, members ...[]byte) {
	if v != nil && v.Kind == jsondoc.Object {
		p.Append(v, members)
	}
}

// Kept returns the members of a metadata object as the patch leaves them, without memproxy's own
// and those in which the patch adds or removes something.
func (p *Patch) Kept(meta *jsondoc.Value) []memproxy.Member {
	return slices.DeleteFunc(p.Edits.Kept(meta), func(m memproxy.Member) bool { return memproxy.Reserved(m.Name) })
}

// Stamp adds a stamp to a holder's metadata. If the holder has no metadata, the members of
// current that are not memproxy's own are added. Set over for a backend that merges metadata,
// so that no member of an older stamp remains.
func (p *Patch) Stamp(op *memproxy.Operation, holder, meta *jsondoc.Value, current []byte, over bool) {
	if meta != nil && meta.Kind == jsondoc.Object {
		p.Add(meta, Members(op.StampFor(p.Kept(meta)), over))
		return
	}
	kept, members := Filter(current, false)
	all := Object(append(kept, Members(op.StampFor(members), over))...)
	if meta == nil {
		p.Add(holder, append([]byte(`"metadata":`), all...))
	} else {
		p.Replace(meta, all) // null, or an invalid value in an update
	}
}
