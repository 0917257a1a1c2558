package letta

import (
	"errors"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// Encode implements the gate's adapter.
func (a *Adapter) Encode(rt memproxy.Route, req memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	r := a.Row(rt.ID)
	_, query := onlyTypes(r, req.Query)
	if len(body) == 0 || r.Shape == upload || !stamps.Needed(op) {
		return body, query, nil
	}
	p, ok := op.Parsed.(*payload)
	if !ok || len(p.body) != len(body) || &p.body[0] != &body[0] { // Decode parsed another body
		var err error
		if p, err = newPayload(r, req, body, a.opt.MaxDepth); err != nil {
			return nil, "", err
		}
	}
	if err := checkCurrentLimit(r, p.doc.Root, op); err != nil {
		return nil, "", err
	}
	w, err := stamps.NewPatch(p.doc, op)
	if err != nil {
		return nil, "", err
	}
	if op.Stamp != nil {
		stamp(w, r, p.doc.Root, op)
	}
	if w.Empty() {
		return body, query, nil
	}
	return p.patched(w.Apply()), query, nil
}

// Reword implements the gate's Adapter.
func (a *Adapter) Reword(rt memproxy.Route, req memproxy.Request, body []byte, texts map[string]string) ([]byte, error) {
	p, err := newPayload(a.Row(rt.ID), req, body, a.opt.MaxDepth)
	if err != nil {
		return nil, err
	}
	if p == nil || p.doc == nil {
		return nil, errors.New("letta: the body cannot be rewritten: it has no parsed document")
	}
	e := p.doc.Edit()
	if err := e.Texts(texts); err != nil {
		return nil, err
	}
	return p.patched(e.Apply()), nil
}

// stamp stamps every object that can have metadata. Agent archival passages, archives,
// conversations, identities and groups have no metadata: only the ledger records their
// origin.
func stamp(p *stamps.Patch, r *row, root *jsondoc.Value, op *memproxy.Operation) {
	list := root
	switch {
	case op.Kind == memproxy.Correct:
		if r.Is(stamped) && len(op.Targets) > 0 {
			update(p, root, op, op.Current[op.Targets[0]].Metadata)
		}
		return
	case r.Is(stamped):
		write(p, root, op, nil)
		return
	case r.Shape == blocks && root.Kind == jsondoc.Object, r.Shape == file:
		list = root.Get("blocks")
	case r.Shape == blocks:
	case r.Shape == passages:
		list = root.Get("passages")
	case r.Shape == agent:
		write(p, root, op, nil)
		list = root.Get("memory_blocks")
	default:
		return
	}
	for _, e := range list.List() {
		write(p, e, op, nil)
	}
}

// write stamps an object's metadata. If the object has none, it gets the current metadata.
func write(p *stamps.Patch, holder *jsondoc.Value, op *memproxy.Operation, current []byte) {
	if holder.Kind != jsondoc.Object {
		return
	}
	p.Stamp(op, holder, holder.Get("metadata"), current, false)
}

// update stamps a change. The server replaces metadata as a whole, so the current metadata
// is included if the client sends none. If the text is unchanged, its stamp is kept and
// sealed again for the new metadata.
func update(p *stamps.Patch, holder *jsondoc.Value, op *memproxy.Operation, current []byte) {
	meta := nonNull(holder.Get("metadata"))
	if nonNull(holder.Get("value")) == nil {
		if old := stamps.FilterMembers(current, true); meta != nil && len(old) > 0 {
			if stamp := stamps.ParseRaw(current); stamp != nil && op.SignStamp != nil {
				sealed := op.SignStamp(*stamp, p.Kept(meta))
				if sealed.Signature != stamp.Signature {
					old = [][]byte{stamps.Members(&sealed, false)}
				}
			}
			p.Add(meta, old...)
		}
		return
	}
	if meta != nil {
		current = nil
	}
	write(p, holder, op, current)
}
