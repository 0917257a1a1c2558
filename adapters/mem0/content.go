package mem0

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/origin"
)

// messages reads a conversation. Content of an unknown shape is refused, because it would
// reach the backend unscreened.
func (d *decoding) messages(v *jsondoc.Value, ptr string) error {
	if v.Kind == jsondoc.String && !d.row.Is(server) {
		return d.content(v, ptr, "user", "") // old clients send one string
	}
	if v.Kind != jsondoc.Array {
		return malformed(memproxy.PayloadMalformed, 422, ptr, "messages must be a list")
	}
	d.op.Items = slices.Grow(d.op.Items, min(len(v.Elems), 32)+3) // a few are of other members
	for i, m := range v.Elems {
		at := jsondoc.Index(ptr, i)
		if m.Kind == jsondoc.String {
			if err := d.content(m, at, "user", ""); err != nil {
				return err
			}
			continue
		}
		if m.Kind != jsondoc.Object {
			return malformed(memproxy.PayloadMalformed, 422, at, "a message must be an object")
		}
		if err := noClaims.CheckMembers(m, at, messageKeys); err != nil {
			return err
		}
		role := m.Get("role").Text()
		for _, f := range m.Members {
			p := jsondoc.Child(at, f.Name)
			switch f.Name {
			case "role":
				if f.Value.Kind != jsondoc.String {
					return malformed(memproxy.PayloadMalformed, 422, p, "role must be a string")
				}
				wire.AddName(d.op, role, p, newItem(memproxy.ItemMetadata, ""))
				if key := memproxy.Key(role); key != "" && !speakers[key] { // readers of the memory would take the role for the speaker
					origin.RecordSpeaker(d.op, d.doc, f.Value, p, "user")
				}
			case "content":
				if err := d.content(f.Value, p, role, ""); err != nil {
					return err
				}
			case "name":
				origin.RecordSpeaker(d.op, d.doc, f.Value, p, "") // the backend stores it as actor_id
				if f.Value.Kind == jsondoc.String {
					d.op.Claims = append(d.op.Claims, memproxy.Claim{Dim: memproxy.DimActor, Op: memproxy.ClaimIs, Values: []string{f.Value.Text()}, Pointer: p})
				}
				wire.AddStrings(d.op, f.Value, p, newItem(memproxy.ItemMetadata, ""))
			default:
				origin.RecordMemberAssertions(d.op, d.doc, f, p, d.a.opt.ConfidenceKeys)
				wire.AddMember(d.op, f, p, newItem(memproxy.ItemMetadata, ""))
			}
		}
	}
	return nil
}

// content reads one content position: a string, a part, or a list of them.
func (d *decoding) content(v *jsondoc.Value, ptr, role, target string) error {
	switch v.Kind {
	case jsondoc.String:
		d.op.Items = append(d.op.Items, memproxy.Item{Kind: memproxy.ItemContent, Pointer: ptr, Text: v.Text(), Role: role, Layer: d.layer(role), Inferred: d.inferred(role), Target: target})
		return nil
	case jsondoc.Array:
		return v.Each(ptr, func(e *jsondoc.Value, at string) error {
			if e.Kind == jsondoc.Array {
				return malformed(memproxy.PayloadMalformed, 422, at, "content must not contain nested lists")
			}
			return d.content(e, at, role, target)
		})
	case jsondoc.Object:
		return d.readPart(v, ptr, role, target)
	case jsondoc.Null:
		return nil
	}
	return malformed(memproxy.PayloadMalformed, 422, ptr, "content must be text")
}

// readPart reads {"type":"text","text":…} and the URL parts.
func (d *decoding) readPart(v *jsondoc.Value, ptr, role, target string) error {
	typ := v.Get("type").Text()
	switch {
	case typ == "text":
		for _, m := range v.Members {
			if m.Name != "type" && m.Name != "text" {
				wire.AddMember(d.op, m, jsondoc.Child(ptr, m.Name), newItem(memproxy.ItemMetadata, target))
			}
		}
		text := v.Get("text")
		if text == nil {
			return malformed(memproxy.PayloadMalformed, 422, jsondoc.Child(ptr, "text"), "content must be text")
		}
		return d.content(text, jsondoc.Child(ptr, "text"), role, target)
	case fetchedTypes[typ]:
		for _, m := range v.Members {
			if m.Name != "type" {
				wire.AddName(d.op, m.Name, jsondoc.Child(ptr, m.Name), newItem(memproxy.ItemMetadata, target))
				addURLItems(d.op, m.Value, jsondoc.Child(ptr, m.Name))
			}
		}
		return nil // the backend ignores or refuses a part without a URL
	}
	return malformed(memproxy.PayloadMalformed, 422, ptr, "unknown content type")
}

// addURLItems adds an item for every string in a URL part.
func addURLItems(op *memproxy.Operation, v *jsondoc.Value, ptr string) {
	if v.Kind == jsondoc.String {
		kind := memproxy.ItemURL
		if strings.HasPrefix(v.Text(), "data:") {
			kind = memproxy.ItemData
		}
		wire.AddItem(op, ptr, v.Text(), memproxy.Item{Kind: kind})
	}
	for _, m := range v.Members {
		wire.AddName(op, m.Name, jsondoc.Child(ptr, m.Name), newItem(memproxy.ItemMetadata, ""))
		addURLItems(op, m.Value, jsondoc.Child(ptr, m.Name))
	}
	for i, e := range v.Elems {
		addURLItems(op, e, jsondoc.Index(ptr, i))
	}
}

// readTexts reads a list of facts that the client's model deduced.
func (d *decoding) readTexts(v *jsondoc.Value, ptr string) error {
	if v.Kind != jsondoc.Array {
		return malformed(memproxy.PayloadMalformed, 422, ptr, "this must be a list of strings")
	}
	first := len(d.op.Items)
	err := v.Each(ptr, func(e *jsondoc.Value, at string) error { return d.content(e, at, "", "") })
	for i := range d.op.Items[first:] {
		it := &d.op.Items[first+i]
		it.Inferred = it.Inferred || it.Kind == memproxy.ItemContent
	}
	return err
}

// layer returns the layer that content is written to. The backend extracts facts from a
// conversation, or for a procedural memory a report of work done; with infer false it
// stores the messages unchanged.
func (d *decoding) layer(role string) memproxy.Layer {
	switch {
	case d.doc == nil || d.row.Shape != addBody:
	case role == "": // a fact, not a message
	case strings.HasPrefix(memproxy.Key(d.doc.Root.Get("memory_type").Text()), "procedural"):
		return memproxy.Task
	case d.doc.False(d.doc.Root.Get("infer")):
		return memproxy.Episodic
	}
	return memproxy.Semantic
}

// inferred reports whether text of a role is not a user's own statement. System messages
// count only if the engine extracts facts, because otherwise it ignores them.
func (d *decoding) inferred(role string) bool {
	return !memproxy.UserRole(role) && (role != "system" || d.extracts())
}

// extracts reports whether the backend's model extracts facts from the messages.
func (d *decoding) extracts() bool {
	return d.doc != nil && d.row.Shape == addBody && d.doc.Root.Get("messages") != nil && !d.doc.False(d.doc.Root.Get("infer"))
}

// metadata reads one metadata object: field, identities, and what every format has.
func (d *decoding) metadata(v *jsondoc.Value, ptr string) error {
	if v.Kind == jsondoc.Null {
		return nil
	}
	if v.Kind != jsondoc.Object {
		if d.op.Kind.Writes() {
			return malformed(memproxy.PayloadMalformed, 422, ptr, "metadata must be an object")
		}
		wire.AddStrings(d.op, v, ptr, newItem(memproxy.ItemMetadata, ""))
		return nil
	}
	if err := noClaims.CheckMembers(v, ptr, metadataKeys); err != nil {
		return err
	}
	prefix := strings.TrimSuffix(ptr, "metadata")
	for _, name := range [...]string{d.a.opt.FieldKey, "category", "categories"} { // the first present one becomes Item.Field
		if f := v.Get(name); f != nil && d.op.Kind.Writes() {
			if err := d.recordFieldAssignment(f, jsondoc.Child(ptr, name), prefix); err != nil {
				return err
			}
		}
	}
	for _, m := range v.Members {
		p := jsondoc.Child(ptr, m.Name)
		if low := jsondoc.Fold(m.Name); low != m.Name && (isFieldKey(d.a.opt.FieldKey, low) || slices.Contains(d.a.opt.ConfidenceKeys, low)) {
			return malformed(memproxy.PayloadDuplicate, 400, p, "a known key is spelled with different letter case")
		}
		if dim, ok := dimOf(d.a.names.Claim(m.Name)); ok { // readers of metadata accept other spellings too
			d.claim(dim, m.Value, p, false, false)
		}
	}
	d.a.opt.AddMetadata(d.op, d.doc, v, ptr, newItem(memproxy.ItemMetadata, ""), &d.originClaims, d.doc.Root.Get("user_id").Text())
	return nil
}
