package mem0

import (
	"errors"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// Encode implements the gate's adapter.
func (a *Adapter) Encode(rt memproxy.Route, req memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	r := a.row(rt.ID)
	if r == nil {
		return nil, "", errors.New("mem0: no such route: " + rt.ID)
	}
	query := unclaimedQuery(op, maskQuery(op, widenQuery(r, req.Query)))
	if len(body) == 0 || op.Stamp == nil && len(op.Reserved) == 0 && !changes(op) && !projects(r, op) && len(op.Masked) == 0 {
		return body, query, nil
	}
	doc, err := a.parsed(body, op)
	if err != nil {
		return nil, "", err
	}
	e := doc.Edit()
	for i := range op.Hints {
		if h := &op.Hints[i]; h.Effective != h.Claimed || !h.Legible {
			if v := doc.At(h.Pointer); v != nil {
				e.Replace(v, stamps.PerMille(h.Effective))
			}
		}
	}
	maskBody(e, doc, op)
	p := patch{e: e, added: map[*jsondoc.Value][][]byte{}}
	for _, ptr := range op.Reserved {
		p.object(doc.At(ptr[:strings.LastIndexByte(ptr, '/')]))
	}
	instead := map[string]string{}
	for i := range op.Attributions {
		at := &op.Attributions[i]
		switch {
		case !at.Removed:
		case at.Instead != "":
			instead[at.Pointer] = at.Instead
		default:
			p.remove(doc, at.Pointer)
		}
	}
	if err := e.Texts(instead); err != nil {
		return nil, "", err
	}
	for _, ptr := range op.Unclaimed {
		if !strings.HasPrefix(ptr, queryPrefix) {
			p.remove(doc, ptr)
		}
	}
	if op.Stamp != nil {
		p.stamp(r, doc.Root, op)
	}
	for _, v := range p.objects {
		e.Object(v, p.drops(v), p.added[v])
	}
	if projects(r, op) {
		widenBody(e, doc)
	}
	return e.Apply(), query, nil
}

// Reword implements the gate's reworder.
func (a *Adapter) Reword(_ memproxy.Route, _ memproxy.Request, body []byte, texts map[string]string) ([]byte, error) {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return nil, err
	}
	e := doc.Edit()
	if err := e.Texts(texts); err != nil {
		return nil, err
	}
	return e.Apply(), nil
}

// parsed is the body as Decode read it, or read anew if it is another.
func (a *Adapter) parsed(body []byte, op *memproxy.Operation) (*jsondoc.Doc, error) {
	if doc, ok := op.Parsed.(*jsondoc.Doc); ok && len(doc.Src) == len(body) && &doc.Src[0] == &body[0] {
		return doc, nil
	}
	return jsondoc.Parse(body, 0)
}

// changes reports whether a claim in the payload is lowered or taken off.
func changes(op *memproxy.Operation) bool {
	if len(op.Unclaimed) > 0 {
		return true
	}
	for i := range op.Attributions {
		if op.Attributions[i].Removed {
			return true
		}
	}
	for i := range op.Hints {
		if h := &op.Hints[i]; h.Effective != h.Claimed || !h.Legible {
			return true
		}
	}
	return false
}

func elems(v *jsondoc.Value) []*jsondoc.Value {
	if v == nil {
		return nil
	}
	return v.Elems
}

// patch gathers what happens to the objects of a body: each loses the proxy's
// own keys and gains what was added.
type patch struct {
	e       *jsondoc.Edits
	objects []*jsondoc.Value
	added   map[*jsondoc.Value][][]byte
	removed []*jsondoc.Value // members' values
}

// remove takes a member out.
func (p *patch) remove(doc *jsondoc.Doc, ptr string) {
	p.object(doc.At(ptr[:strings.LastIndexByte(ptr, '/')]))
	p.removed = append(p.removed, doc.At(ptr))
}

// drops tells which members of an object go.
func (p *patch) drops(v *jsondoc.Value) func(string) bool {
	return func(name string) bool { return memproxy.Reserved(name) || slices.Contains(p.removed, v.Get(name)) }
}

// touched are the values in which, or with which, something changes.
func (p *patch) touched() []*jsondoc.Value { return slices.Concat(p.objects, p.removed) }

func (p *patch) object(v *jsondoc.Value, added ...[]byte) {
	if v == nil || v.Kind != jsondoc.Object {
		return
	}
	if _, known := p.added[v]; !known {
		p.objects = append(p.objects, v)
	}
	p.added[v] = append(p.added[v], added...)
}

// stamp stamps every holder of metadata: the body of an add or an update, or
// the entries of a batch.
func (p *patch) stamp(r *row, root *jsondoc.Value, op *memproxy.Operation) {
	if r.shape == batch {
		for _, entry := range elems(root.Get("memories")) {
			p.holder(r, entry, op, entry.Get("memory_id").Text())
		}
		return
	}
	target := ""
	if len(op.Targets) > 0 {
		target = op.Targets[0]
	}
	p.holder(r, root, op, target)
}

func (p *patch) holder(r *row, holder *jsondoc.Value, op *memproxy.Operation, target string) {
	if !speaksOf(r, holder) {
		return
	}
	over := r.kind == memproxy.Correct && r.dialect != hosted // a server merges
	switch meta := holder.Get("metadata"); {
	case meta == nil:
		var kept [][]byte
		if r.dialect == hosted && r.kind == memproxy.Correct {
			// The platform replaces metadata on update: what is there must be
			// sent along, or it is lost.
			kept = stamps.Kept(op.Current[target].Metadata, false)
		}
		own := stamps.Members(op.StampBeside(stamps.Object(kept)), over)
		p.object(holder, append([]byte(`"metadata":`), stamps.Object(append(kept, own...))...))
	case meta.Kind == jsondoc.Object:
		p.object(meta, stamps.Members(op.StampBeside(stamps.Beside(p.e, meta, p.touched())), over)...)
	default: // null, or something an update may not carry
		p.e.Replace(meta, stamps.Object(stamps.Members(op.Stamp, over)))
	}
}

// speaksOf reports whether the holder writes something that a stamp can speak
// of.
func speaksOf(r *row, holder *jsondoc.Value) bool {
	switch {
	case r.shape == addBody:
		return true
	case r.kind != memproxy.Correct || r.shape != update && r.shape != batch || r.id == "mem0.v1.feedback":
		return false
	}
	for _, key := range [...]string{"text", "metadata", "data", "memory_content", "content"} {
		if holder.Get(key) != nil {
			return true
		}
	}
	return false
}
