// Package stamps writes provenance stamps to metadata and reads them: flat members with
// the prefix memproxy.StampPrefix, which all backends store.
package stamps

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/metadata"
)

// FilterMembers returns members of a metadata object as raw JSON: memproxy's own if ours is
// set, else the others. It returns none if raw is not an object.
func FilterMembers(raw []byte, ours bool) [][]byte {
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

// Object returns an object with these members.
func Object(members ...[]byte) []byte {
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}"))
}

// appendPerMille formats a share as a JSON number with at most three decimals.
func appendPerMille(to []byte, p memproxy.PerMille) []byte {
	return strconv.AppendFloat(to, p.Fraction(), 'f', -1, 64)
}

// Members returns the members of a stamp, separated by commas. With over, absent members are
// empty instead of left out, because a backend that merges metadata would otherwise keep
// those of an older stamp.
func Members(s *memproxy.Stamp, over bool) []byte {
	out := make([]byte, 0, 1024)
	member := func(name string) {
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), memproxy.StampPrefix...), name...), '"', ':')
	}
	text := func(name, value string) {
		member(name)
		out, _ = jsontext.AppendQuote(out, value) // invalid UTF-8 is replaced, and the stamp then fails verification
	}
	share := func(name string, value memproxy.PerMille) {
		member(name)
		out = appendPerMille(out, value)
	}
	at := func(name string, t time.Time) {
		member(name)
		out = append(t.UTC().AppendFormat(append(out, '"'), time.RFC3339), '"')
	}
	optional := func(name, value string) {
		if value != "" || over {
			text(name, value)
		}
	}
	received := !s.Received.IsZero()
	text("id", s.ID)
	text("actor", s.Actor)
	text("trust", string(s.Trust))
	share("confidence", s.Confidence)
	text("source", string(s.Source))
	text("attestation", string(s.Attestation))
	at("ts", s.Time)
	text("sha256", s.SHA256)
	optional("mark", s.Mark)
	if received {
		at("received_at", s.Received)
	} else {
		optional("received_at", "")
	}
	optional("session", s.Session)
	optional("trigger", s.Trigger)
	optional("flags", s.Flags)
	if received || s.Score != 0 || over {
		share("score", s.Score)
	}
	optional("meta", s.Metadata)
	text("sig", s.Signature)
	return out
}

// ParseRaw reads a stamp from metadata in JSON, like Parse.
func ParseRaw(raw []byte) *memproxy.Stamp {
	doc, err := jsondoc.Parse(raw, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return nil
	}
	return parse(doc.Root, doc)
}

// Parse reads a stamp from metadata, or returns nil. It does not verify the stamp. altered
// reports whether the other members are not those that the stamp was written with.
func Parse(meta *jsondoc.Value, doc *jsondoc.Doc) (s *memproxy.Stamp, altered bool) {
	if s = parse(meta, doc); s == nil || s.Metadata == "" {
		return s, false
	}
	return s, metadata.Differs(s, appendMembers(make([]memproxy.Member, 0, 24), meta, doc))
}

func appendMembers(to []memproxy.Member, meta *jsondoc.Value, doc *jsondoc.Doc) []memproxy.Member {
	for _, m := range meta.Members {
		to = append(to, memproxy.Member{Name: m.Name, Value: doc.Raw(m.Value)})
	}
	return to
}

func parse(meta *jsondoc.Value, doc *jsondoc.Doc) *memproxy.Stamp {
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
		Confidence: parsePerMille(meta.Get("memproxy_confidence"), doc), Time: at("memproxy_ts"), SHA256: text("memproxy_sha256"),
		Mark: text("memproxy_mark"), Received: at("memproxy_received_at"), Session: text("memproxy_session"),
		Trigger: text("memproxy_trigger"), Score: parsePerMille(meta.Get("memproxy_score"), doc), Flags: text("memproxy_flags"),
		Metadata: text("memproxy_meta"), Signature: text("memproxy_sig"),
	}
}

// parsePerMille parses a number as appendPerMille formats it; 0 if it is invalid.
func parsePerMille(v *jsondoc.Value, doc *jsondoc.Doc) memproxy.PerMille {
	if v == nil || v.Kind != jsondoc.Number {
		return 0
	}
	f, err := strconv.ParseFloat(string(doc.Raw(v)), 64)
	if err != nil || f < 0 || f > 1 {
		return 0
	}
	return memproxy.FromFraction(f)
}

// SetProvenance adds provenance to the metadata of an element of an answer, unless p is
// nil, and removes the unwanted members of the element.
func SetProvenance(e *jsondoc.Edits, el *jsondoc.Value, p *memproxy.Provenance, unwanted ...string) {
	var added [][]byte
	if p != nil {
		text, _ := json.Marshal(p) // strings and numbers always marshal
		text = append([]byte(`"`+memproxy.ProvenanceKey+`":`), text...)
		meta := el.Get("metadata")
		if meta != nil && meta.Kind == jsondoc.Object && !slices.Contains(unwanted, "metadata") {
			e.Object(meta, func(m *jsondoc.Member) bool { return m.Name == memproxy.ProvenanceKey }, [][]byte{text})
		} else {
			unwanted = append(slices.Clone(unwanted), "metadata")
			added = [][]byte{slices.Concat([]byte(`"metadata":{`), text, []byte("}"))}
		}
	}
	if len(unwanted)+len(added) > 0 {
		e.Object(el, func(m *jsondoc.Member) bool { return slices.Contains(unwanted, m.Name) }, added)
	}
}
