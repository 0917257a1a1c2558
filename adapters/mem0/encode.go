package mem0

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Encode implements the gate's adapter.
func (a *Adapter) Encode(rt memproxy.Route, req memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	r := a.row(rt.ID)
	if r == nil {
		return nil, "", errors.New("mem0: no such route: " + rt.ID)
	}
	query := widenQuery(r, req.Query)
	if len(body) == 0 || op.Stamp == nil && len(op.Reserved) == 0 && !clamped(op) && !projects(r, op) {
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
				e.Replace(v, perMille(h.Effective))
			}
		}
	}
	p := patch{e: e, added: map[*jsondoc.Value][][]byte{}}
	for _, ptr := range op.Reserved {
		p.object(doc.At(ptr[:strings.LastIndexByte(ptr, '/')]))
	}
	if op.Stamp != nil {
		p.stamp(r, doc.Root, op)
	}
	for _, v := range p.objects {
		e.Object(v, reserved, p.added[v])
	}
	if projects(r, op) {
		widenBody(e, doc)
	}
	return e.Apply(), query, nil
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
	own := stampMembers(op.Stamp)
	switch meta := holder.Get("metadata"); {
	case meta == nil:
		if r.dialect == hosted && r.kind == memproxy.Correct {
			// The platform replaces metadata on update: what is there must be
			// sent along, or it is lost.
			own = append(kept(op.Current[target].Metadata), own...)
		}
		p.object(holder, append([]byte(`"metadata":`), object(own)...))
	case meta.Kind == jsondoc.Object:
		p.object(meta, own...)
	default: // null, or something an update may not carry
		p.e.Replace(meta, object(own))
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

// members are JSON members in one buffer.
type members struct {
	buf  []byte
	ends []int
}

func (m *members) raw(name string, write func([]byte) []byte) {
	m.buf = append(append(append(append(m.buf, '"'), memproxy.StampPrefix...), name...), '"', ':')
	m.buf = write(m.buf)
	m.ends = append(m.ends, len(m.buf))
}

func (m *members) str(name, value string) {
	m.raw(name, func(b []byte) []byte {
		// What is not UTF-8 is replaced, and the stamp then does not verify.
		b, _ = jsontext.AppendQuote(b, value)
		return b
	})
}

func (m *members) list() [][]byte {
	out := make([][]byte, len(m.ends))
	start := 0
	for i, end := range m.ends {
		out[i] = m.buf[start:end:end]
		start = end
	}
	return out
}

// stampMembers writes a stamp as flat members.
func stampMembers(s *memproxy.Stamp) [][]byte {
	m := members{buf: make([]byte, 0, 640), ends: make([]int, 0, 10)}
	m.str("id", s.ID)
	m.str("actor", s.Actor)
	m.str("trust", string(s.Trust))
	m.raw("confidence", func(b []byte) []byte { return append(b, perMille(s.Confidence)...) })
	m.str("source", string(s.Source))
	m.str("attestation", string(s.Attestation))
	m.raw("ts", func(b []byte) []byte {
		return append(s.Time.UTC().AppendFormat(append(b, '"'), time.RFC3339), '"')
	})
	m.str("sha256", s.SHA256)
	if s.Mark != "" {
		m.str("mark", s.Mark)
	}
	m.str("sig", s.Signature)
	return m.list()
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
