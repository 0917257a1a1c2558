package mem0

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Encode implements the gate's adapter.
func (a *Adapter) Encode(rt memproxy.Route, req memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	r := a.row(rt.ID)
	if len(body) == 0 {
		return body, widenQuery(r, req.Query), nil
	}
	if op.Stamp == nil && len(op.Reserved) == 0 && !clamped(op) && !projects(r, op) {
		return body, req.Query, nil
	}
	doc, err := a.parsed(body, op)
	if err != nil {
		return nil, "", err
	}
	e := doc.Edit()
	for i := range op.Hints {
		if h := &op.Hints[i]; h.Effective != h.Claimed || !h.Legible {
			if v := doc.At(h.Pointer); v != nil {
				e.Replace(v, perMille(h.Effective))
			}
		}
	}
	dropReserved := func(name string) bool { return reserved(name) }
	switch {
	case r.shape == batch && r.kind == memproxy.Correct:
		for _, entry := range elems(doc.Root.Get("memories")) {
			a.stampInto(e, doc, r, entry, op, entry.Get("memory_id").Text())
		}
		e.Object(doc.Root, dropReserved, nil)
	case op.Stamp != nil && (r.shape == addBody || r.shape == update) && r.id != "mem0.v1.feedback":
		target := ""
		if len(op.Targets) > 0 {
			target = op.Targets[0]
		}
		a.stampInto(e, doc, r, doc.Root, op, target)
	default:
		e.Object(doc.Root, dropReserved, nil)
		if m := doc.Root.Get("metadata"); m != nil && m.Kind == jsondoc.Object {
			e.Object(m, dropReserved, nil)
		}
	}
	if projects(r, op) {
		widenBody(e, doc)
	}
	return e.Apply(), req.Query, nil
}

// parsed is the body as Decode read it, or read anew if it is another.
func (a *Adapter) parsed(body []byte, op *memproxy.Operation) (*jsondoc.Doc, error) {
	if doc, ok := op.Parsed.(*jsondoc.Doc); ok && len(doc.Src) == len(body) && &doc.Src[0] == &body[0] {
		return doc, nil
	}
	return jsondoc.Parse(body, a.opt.MaxDepth)
}

func clamped(op *memproxy.Operation) bool {
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

// perMille writes a share as a JSON number of at most three decimals.
func perMille(p memproxy.PerMille) []byte {
	return strconv.AppendFloat(nil, float64(p)/1000, 'f', -1, 64)
}

// stampInto puts the stamp into the metadata of one holder: the body of an add
// or an update, or one entry of a batch.
func (a *Adapter) stampInto(e *jsondoc.Edits, doc *jsondoc.Doc, r *row, holder *jsondoc.Value, op *memproxy.Operation, target string) {
	if r.kind == memproxy.Correct && holder.Get("text") == nil && holder.Get("metadata") == nil {
		e.Object(holder, func(name string) bool { return reserved(name) }, nil)
		return // nothing that the stamp speaks of is written
	}
	own := stampMembers(op.Stamp)
	drop := func(name string) bool { return reserved(name) }
	meta := holder.Get("metadata")
	if meta != nil && meta.Kind == jsondoc.Object {
		e.Object(meta, drop, own)
		e.Object(holder, drop, nil)
		return
	}
	members := own
	if meta == nil && r.dialect == hosted && r.kind == memproxy.Correct {
		// The platform replaces metadata on update: what is there must be sent
		// along, or it is lost.
		members = append(kept(op.Current[target].Metadata), own...)
	}
	text := object(members)
	if meta != nil { // null, or something an update may not carry
		e.Replace(meta, text)
		e.Object(holder, drop, nil)
		return
	}
	e.Object(holder, drop, [][]byte{append([]byte(`"metadata":`), text...)})
}

// kept are the members of existing metadata that are not the proxy's own.
func kept(raw []byte) [][]byte {
	if len(raw) == 0 {
		return nil
	}
	doc, err := jsondoc.Parse(raw, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return nil
	}
	var out [][]byte
	for _, m := range doc.Root.Members {
		if !reserved(m.Name) {
			out = append(out, raw[m.NameStart:m.Value.End])
		}
	}
	return out
}

func object(members [][]byte) []byte {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m...)
	}
	return append(out, '}')
}

// stampMembers writes a stamp as flat members.
func stampMembers(s *memproxy.Stamp) [][]byte {
	str := func(name, value string) []byte {
		b, _ := json.Marshal(value) // a string always marshals
		return append([]byte(`"`+memproxy.StampPrefix+name+`":`), b...)
	}
	return [][]byte{
		str("id", s.ID), str("actor", s.Actor), str("trust", string(s.Trust)),
		append([]byte(`"`+memproxy.StampPrefix+`confidence":`), perMille(s.Confidence)...),
		str("source", string(s.Source)), str("attestation", string(s.Attestation)),
		str("ts", s.Time.UTC().Format(time.RFC3339)), str("sha256", s.SHA256), str("sig", s.Signature),
	}
}

// parseStamp reads a stamp out of metadata, or returns nil.
func parseStamp(meta *jsondoc.Value, doc *jsondoc.Doc) *memproxy.Stamp {
	get := func(name string) *jsondoc.Value { return meta.Get(memproxy.StampPrefix + name) }
	if get("id") == nil || get("sig") == nil {
		return nil
	}
	s := &memproxy.Stamp{
		ID: get("id").Text(), Actor: get("actor").Text(), Trust: memproxy.Trust(get("trust").Text()),
		Source: memproxy.Source(get("source").Text()), Attestation: memproxy.Attestation(get("attestation").Text()),
		SHA256: get("sha256").Text(), Signature: get("sig").Text(),
	}
	s.Time, _ = time.Parse(time.RFC3339, get("ts").Text()) // a bad time fails the signature
	if c := get("confidence"); c != nil && c.Kind == jsondoc.Number {
		f, err := strconv.ParseFloat(string(doc.Raw(c)), 64)
		if err == nil && f >= 0 && f <= 1 {
			s.Confidence = memproxy.PerMille(f*1000 + 0.5)
		}
	}
	return s
}
