package letta

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Encode implements the gate's adapter.
func (a *Adapter) Encode(rt memproxy.Route, req memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	r := a.row(rt.ID)
	if r == nil {
		return nil, "", errors.New("letta: no such route: " + rt.ID)
	}
	if len(body) == 0 || r.shape == upload || op.Stamp == nil && len(op.Reserved) == 0 && !clamped(op) {
		return body, req.Query, nil
	}
	p, err := a.parsed(r, req, body, op)
	if err != nil {
		return nil, "", err
	}
	if p == nil || p.doc == nil {
		return body, req.Query, nil
	}
	if err := fits(r, p.doc.Root, op); err != nil {
		return nil, "", err
	}
	e := p.doc.Edit()
	for i := range op.Hints {
		if h := &op.Hints[i]; h.Effective != h.Claimed || !h.Legible {
			if v := p.doc.At(h.Pointer); v != nil {
				e.Replace(v, perMille(h.Effective))
			}
		}
	}
	w := patch{e: e, added: map[*jsondoc.Value][][]byte{}}
	for _, ptr := range op.Reserved {
		w.object(p.doc.At(ptr[:strings.LastIndexByte(ptr, '/')]))
	}
	if op.Stamp != nil {
		w.stamp(r, p.doc.Root, op)
	}
	for _, v := range w.objects {
		e.Object(v, reserved, w.added[v])
	}
	if e.Empty() {
		return body, req.Query, nil
	}
	out, err := p.patched(e.Apply())
	return out, req.Query, err
}

// parsed is the body as Decode read it, or read anew if it is another.
func (a *Adapter) parsed(r *row, req memproxy.Request, body []byte, op *memproxy.Operation) (*payload, error) {
	if p, ok := op.Parsed.(*payload); ok && len(p.body) == len(body) && &p.body[0] == &body[0] {
		return p, nil
	}
	return a.payload(r, req, body)
}

func clamped(op *memproxy.Operation) bool {
	for i := range op.Hints {
		if h := &op.Hints[i]; h.Effective != h.Claimed || !h.Legible {
			return true
		}
	}
	return false
}

// perMille writes a share as a JSON number of at most three decimals.
func perMille(p memproxy.PerMille) []byte {
	return strconv.AppendFloat(nil, float64(p)/1000, 'f', -1, 64)
}

// patch gathers what happens to the objects of a body: each loses the proxy's
// own keys and gains what was added.
type patch struct {
	e       *jsondoc.Edits
	objects []*jsondoc.Value
	added   map[*jsondoc.Value][][]byte
}

func (p *patch) object(v *jsondoc.Value, added ...[]byte) {
	if v == nil || v.Kind != jsondoc.Object {
		return
	}
	if _, known := p.added[v]; !known {
		p.objects = append(p.objects, v)
	}
	p.added[v] = append(p.added[v], added...)
}

// stamp stamps every holder of metadata. Agent archival passages, archives,
// conversations, identities and groups have none: the ledger is their home.
func (p *patch) stamp(r *row, root *jsondoc.Value, op *memproxy.Operation) {
	own := object(stampMembers(op.Stamp))
	switch {
	case op.Kind == memproxy.Correct:
		if updates(r) && len(op.Targets) > 0 {
			p.update(root, own, op.Current[op.Targets[0]].Metadata)
		}
	case r.shape == block, hasMetadata(r.id):
		p.home(root, own)
	case r.shape == blocks:
		if root.Kind == jsondoc.Object {
			root = root.Get("blocks")
		}
		p.homes(root, own)
	case r.shape == passages:
		p.homes(root.Get("passages"), own)
	case r.shape == file:
		p.homes(root.Get("blocks"), own)
	case r.shape == agent:
		p.home(root, own)
		p.homes(root.Get("memory_blocks"), own)
	}
}

// hasMetadata names the creations, shaped otherwise, whose object keeps
// metadata.
func hasMetadata(id string) bool {
	switch id {
	case "letta.create_passage_in_archive", "letta.create_folder", "letta.create_source":
		return true
	}
	return false
}

// updates reports whether the row patches an object that has metadata.
func updates(r *row) bool {
	switch r.id {
	case "letta.modify_agent", "letta.modify_folder", "letta.modify_source":
		return true
	}
	return r.shape == block
}

func (p *patch) homes(list *jsondoc.Value, own []byte) {
	if list == nil {
		return
	}
	for _, e := range list.Elems {
		p.home(e, own)
	}
}

// home stamps the metadata of something new.
func (p *patch) home(holder *jsondoc.Value, own []byte) {
	switch meta := holder.Get("metadata"); {
	case holder.Kind != jsondoc.Object:
	case meta == nil:
		p.object(holder, append([]byte(`"metadata":`), own...))
	case meta.Kind == jsondoc.Object:
		p.object(meta, own[1:len(own)-1])
	default:
		p.e.Replace(meta, own)
	}
}

// update stamps a change. The server replaces metadata whole, so what is
// there goes along where the client sends none; and where the text stays as
// it is, its stamp stays.
func (p *patch) update(holder *jsondoc.Value, own, current []byte) {
	meta := given(holder.Get("metadata"))
	if given(holder.Get("value")) == nil {
		if old := members(current, true); meta != nil && len(old) > 0 {
			p.object(meta, old...)
		}
		return
	}
	if meta == nil {
		own = object(append(members(current, false), own[1:len(own)-1]))
	}
	p.home(holder, own)
}

// members are the members of existing metadata, the proxy's own or the others.
func members(raw []byte, ours bool) [][]byte {
	if len(raw) == 0 {
		return nil
	}
	doc, err := jsondoc.Parse(raw, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return nil
	}
	var out [][]byte
	for _, m := range doc.Root.Members {
		if reserved(m.Name) == ours {
			out = append(out, raw[m.NameStart:m.Value.End])
		}
	}
	return out
}

func object(members [][]byte) []byte {
	out := append([]byte{'{'}, bytes.Join(members, []byte{','})...)
	return append(out, '}')
}

// stampMembers writes a stamp as flat members.
func stampMembers(s *memproxy.Stamp) [][]byte {
	str := func(name, value string) []byte {
		b, _ := json.Marshal(value) // a string always marshals
		return append([]byte(`"`+memproxy.StampPrefix+name+`":`), b...)
	}
	out := [][]byte{
		str("id", s.ID), str("actor", s.Actor), str("trust", string(s.Trust)),
		append([]byte(`"`+memproxy.StampPrefix+`confidence":`), perMille(s.Confidence)...),
		str("source", string(s.Source)), str("attestation", string(s.Attestation)),
		str("ts", s.Time.UTC().Format(time.RFC3339)), str("sha256", s.SHA256), str("sig", s.Signature),
	}
	if s.Mark != "" {
		out = append(out, str("mark", s.Mark))
	}
	return out
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
		SHA256: get("sha256").Text(), Mark: get("mark").Text(), Signature: get("sig").Text(),
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
