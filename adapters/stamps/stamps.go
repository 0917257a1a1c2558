// Package stamps writes provenance stamps to metadata and reads them: flat members with
// the prefix memproxy.StampPrefix, which all backends store.
package stamps

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/metadata"
)

// FilterMembers returns members of a metadata object as raw JSON: memproxy's own if ours is
// set, else the others. It returns none if raw is not an object.
func FilterMembers(raw []byte, ours bool) [][]byte {
	texts, _ := Filter(raw, ours)
	return texts
}

// Filter is FilterMembers, and returns the members' names and values as well.
func Filter(raw []byte, ours bool) (texts [][]byte, members []memproxy.Member) {
	if len(raw) == 0 {
		return nil, nil
	}
	doc, err := jsondoc.Parse(raw, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return nil, nil
	}
	for _, m := range doc.Root.Members {
		if memproxy.Reserved(m.Name) == ours {
			texts = append(texts, raw[m.NameStart:m.Value.End])
			members = append(members, memproxy.Member{Name: m.Name, Value: doc.Raw(m.Value)})
		}
	}
	return texts, members
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
	members := make([]memproxy.Member, 0, 8)
	for i := range meta.Members {
		if m := &meta.Members[i]; !memproxy.Reserved(m.Name) {
			members = append(members, memproxy.Member{Name: m.Name, Value: doc.Raw(m.Value)})
		}
	}
	return s, metadata.Differs(s, members)
}

func parse(meta *jsondoc.Value, doc *jsondoc.Doc) *memproxy.Stamp {
	var s *memproxy.Stamp
	found := 0 // of the members that every stamp has
	for i := range meta.Members {
		name, ours := strings.CutPrefix(meta.Members[i].Name, memproxy.StampPrefix)
		if !ours {
			continue
		}
		if s == nil {
			s = &memproxy.Stamp{}
		}
		v := meta.Members[i].Value
		switch text := v.Text(); name {
		case "id":
			s.ID = text
			found++
		case "sig":
			s.Signature = text
			found++
		case "actor":
			s.Actor = text
		case "trust":
			s.Trust = memproxy.Trust(text)
		case "confidence":
			s.Confidence = parsePerMille(v, doc)
		case "source":
			s.Source = memproxy.Source(text)
		case "attestation":
			s.Attestation = memproxy.Attestation(text)
		case "ts":
			s.Time, _ = time.Parse(time.RFC3339, text) // a bad time fails the signature
		case "sha256":
			s.SHA256 = text
		case "mark":
			s.Mark = text
		case "received_at":
			s.Received, _ = time.Parse(time.RFC3339, text)
		case "session":
			s.Session = text
		case "trigger":
			s.Trigger = text
		case "flags":
			s.Flags = text
		case "score":
			s.Score = parsePerMille(v, doc)
		case "meta":
			s.Metadata = text
		}
	}
	if found < 2 {
		return nil
	}
	return s
}

// parsePerMille parses a number as appendPerMille formats it; 0 if it is invalid.
func parsePerMille(v *jsondoc.Value, doc *jsondoc.Doc) memproxy.PerMille {
	if v.Kind != jsondoc.Number {
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
	if p != nil {
		text, _ := json.Marshal(p) // strings and numbers always marshal
		text = append([]byte(`"`+memproxy.ProvenanceKey+`":`), text...)
		meta := el.Get("metadata")
		if meta != nil && meta.Kind == jsondoc.Object && !slices.Contains(unwanted, "metadata") {
			e.Object(meta, func(m *jsondoc.Member) bool { return m.Name == memproxy.ProvenanceKey }, [][]byte{text})
		} else {
			unwanted = append(slices.Clone(unwanted), "metadata")
			e.Append(el, [][]byte{slices.Concat([]byte(`"metadata":{`), text, []byte("}"))})
		}
	}
	e.Object(el, func(m *jsondoc.Member) bool { return slices.Contains(unwanted, m.Name) }, nil)
}
