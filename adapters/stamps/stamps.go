// Package stamps writes provenance stamps to metadata and reads them: flat members with
// the prefix memproxy.StampPrefix, which all backends store.
package stamps

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Kept returns the members of metadata in JSON: memproxy's own, or the others. It
// returns none if raw is not an object.
func Kept(raw []byte, ours bool) [][]byte {
	if len(raw) == 0 {
		return nil
	}
	doc, err := jsondoc.Parse(raw, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return nil
	}
	var out [][]byte
	for _, m := range doc.Root.Members {
		if memproxy.Reserved(m.Name) == ours {
			out = append(out, raw[m.NameStart:m.Value.End])
		}
	}
	return out
}

// WithoutReserved returns metadata without memproxy's own members, as an object, after the
// edits. Members that an edit changes, or that contain a touched value, are left out.
func WithoutReserved(e *jsondoc.Edits, meta *jsondoc.Value, touched []*jsondoc.Value) []byte {
	if meta == nil || meta.Kind != jsondoc.Object {
		return nil
	}
	out := append(make([]byte, 0, meta.End-meta.Start), '{')
	for _, m := range meta.Members {
		value, whole := e.Kept(m.Value)
		if memproxy.Reserved(m.Name) || !whole || slices.ContainsFunc(touched, func(t *jsondoc.Value) bool {
			return t != nil && t.Start >= m.Value.Start && t.End <= m.Value.End
		}) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, m.Name) // valid: it was decoded from JSON
		out = append(append(out, ':'), value...)
	}
	return append(out, '}')
}

// Object returns an object with these members.
func Object(members [][]byte) []byte {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m...)
	}
	return append(out, '}')
}

// PerMille formats a share as a JSON number with at most three decimals.
func PerMille(p memproxy.PerMille) []byte {
	return strconv.AppendFloat(nil, float64(p)/1000, 'f', -1, 64)
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
		// Invalid UTF-8 is replaced, and the stamp then fails verification.
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

// Members returns the members of a stamp. With over, absent ones are empty instead of
// left out: backends that merge metadata would keep those of an older stamp.
func Members(s *memproxy.Stamp, over bool) [][]byte {
	m := members{buf: make([]byte, 0, 1024), ends: make([]int, 0, 16)}
	optional := func(name, value string) {
		if value != "" || over {
			m.str(name, value)
		}
	}
	received := ""
	if !s.Received.IsZero() {
		received = s.Received.UTC().Format(time.RFC3339)
	}
	m.str("id", s.ID)
	m.str("actor", s.Actor)
	m.str("trust", string(s.Trust))
	m.raw("confidence", func(b []byte) []byte { return append(b, PerMille(s.Confidence)...) })
	m.str("source", string(s.Source))
	m.str("attestation", string(s.Attestation))
	m.raw("ts", func(b []byte) []byte {
		return append(s.Time.UTC().AppendFormat(append(b, '"'), time.RFC3339), '"')
	})
	m.str("sha256", s.SHA256)
	optional("mark", s.Mark)
	optional("received_at", received)
	optional("session", s.Session)
	optional("trigger", s.Trigger)
	optional("flags", s.Flags)
	if received != "" || s.Score != 0 || over {
		m.raw("score", func(b []byte) []byte { return append(b, PerMille(s.Score)...) })
	}
	optional("meta", s.Metadata)
	m.str("sig", s.Signature)
	return m.list()
}

// ParseRaw reads a stamp out of metadata in JSON.
func ParseRaw(metadata []byte) *memproxy.Stamp {
	doc, err := jsondoc.Parse(metadata, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return nil
	}
	return Parse(doc.Root, doc)
}

// Parse reads a stamp out of metadata, or returns nil. It is not verified.
func Parse(meta *jsondoc.Value, doc *jsondoc.Doc) *memproxy.Stamp {
	if meta.Get("memproxy_id") == nil || meta.Get("memproxy_sig") == nil {
		return nil
	}
	text := func(name string) string { return meta.Get(name).Text() }
	at := func(name string) time.Time {
		t, _ := time.Parse(time.RFC3339, text(name)) // a bad time fails the signature
		return t
	}
	return &memproxy.Stamp{
		ID: text("memproxy_id"), Actor: text("memproxy_actor"), Trust: memproxy.Trust(text("memproxy_trust")),
		Source: memproxy.Source(text("memproxy_source")), Attestation: memproxy.Attestation(text("memproxy_attestation")),
		Confidence: share(meta.Get("memproxy_confidence"), doc), Time: at("memproxy_ts"), SHA256: text("memproxy_sha256"),
		Mark: text("memproxy_mark"), Received: at("memproxy_received_at"), Session: text("memproxy_session"),
		Trigger: text("memproxy_trigger"), Score: share(meta.Get("memproxy_score"), doc), Flags: text("memproxy_flags"),
		Metadata: text("memproxy_meta"), Signature: text("memproxy_sig"),
	}
}

// share parses the result of PerMille; 0 if it is invalid.
func share(v *jsondoc.Value, doc *jsondoc.Doc) memproxy.PerMille {
	if v == nil || v.Kind != jsondoc.Number {
		return 0
	}
	f, err := strconv.ParseFloat(string(doc.Raw(v)), 64)
	if err != nil || f < 0 || f > 1 {
		return 0
	}
	return memproxy.PerMille(f*1000 + 0.5)
}

// Tell adds provenance, if known, to the metadata of an element of an answer, and
// removes unwanted members.
func Tell(e *jsondoc.Edits, el *jsondoc.Value, p *memproxy.Provenance, unwanted ...string) error {
	var added [][]byte
	if p != nil {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		text = append([]byte(`"`+memproxy.ProvenanceKey+`":`), text...)
		meta := el.Get("metadata")
		if meta != nil && meta.Kind == jsondoc.Object && !slices.Contains(unwanted, "metadata") {
			e.Object(meta, func(name string) bool { return name == memproxy.ProvenanceKey }, [][]byte{text})
		} else {
			unwanted = append(slices.Clone(unwanted), "metadata")
			added = [][]byte{slices.Concat([]byte(`"metadata":{`), text, []byte("}"))}
		}
	}
	if len(unwanted)+len(added) > 0 {
		e.Object(el, func(name string) bool { return slices.Contains(unwanted, name) }, added)
	}
	return nil
}
