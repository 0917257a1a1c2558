package letta

import (
	"cmp"
	"strconv"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// block reads one block. The governed field is the label in the body, else the label in
// the path.
func (d *decoding) block(v *jsondoc.Value, ptr string) error {
	first := len(d.op.Items)
	target, addressed := "", ""
	if d.op.Kind == memproxy.Correct && len(d.op.Targets) > 0 {
		target, addressed = d.op.Targets[0], d.params["label"]
	}
	value, text := nonNull(v.Get("value")), jsondoc.Child(ptr, "value")
	// The model reads label and description next to the value. Without a value they are
	// the only written text, and so the content.
	about := memproxy.ItemMetadata
	if value == nil {
		about = memproxy.ItemContent
	}
	err := d.members(v, ptr, func(m jsondoc.Member, ptr string) error {
		switch m.Name {
		case "value":
			return d.textMember(m.Value, ptr, memproxy.ItemContent)
		case "label", "description":
			return d.textMember(m.Value, ptr, about)
		case "metadata", "metadata_":
			return d.metadata(m.Value, ptr)
		case "tags":
			d.originClaims.AddCategories(m.Value)
		}
		d.otherMember(m, ptr)
		return nil
	})
	if err != nil {
		return err
	}
	field := cmp.Or(v.Get("label").Text(), addressed)
	if field == "" && d.op.Kind == memproxy.Learn {
		return malformed(memproxy.PayloadMalformed, 422, jsondoc.Child(ptr, "label"), "a block needs a label")
	}
	for i := first; i < len(d.op.Items); i++ {
		it := &d.op.Items[i]
		it.Field = field
		if it.Pointer == text {
			it.Target = target // the block's text; other items have no target
		}
	}
	if addressed != "" && addressed != field {
		d.addMove("path:label", addressed, target) // a renaming writes to the old label as well
	}
	if target != "" && value == nil {
		// The unchanged text counts as written to the field that it now has.
		d.addMove("path:block_id", field, target)
	}
	d.cost++
	if limit, ok := d.doc.Int(v.Get("limit")); ok && value != nil { // servers from 0.16.7 on do not enforce it
		return checkLimit(value.Text(), limit, text)
	}
	return nil
}

// addMove adds an item for a write to a block that contains no text.
func (d *draft) addMove(ptr, field, target string) {
	d.op.Items = append(d.op.Items, memproxy.Item{Kind: memproxy.ItemContent, Pointer: ptr, Layer: memproxy.Semantic, Field: field, Target: target, Moved: true})
}

// nonNull returns v, or nil if it is null: in updates null means unchanged.
func nonNull(v *jsondoc.Value) *jsondoc.Value {
	if v == nil || v.Kind == jsondoc.Null {
		return nil
	}
	return v
}

// textMember reads a member that must be a string or null.
func (d *draft) textMember(v *jsondoc.Value, ptr string, kind memproxy.ItemKind) error {
	switch v.Kind {
	case jsondoc.Null:
	case jsondoc.String:
		wire.AddItem(d.op, ptr, v.Text(), d.newItem(kind))
	default:
		return malformed(memproxy.PayloadMalformed, 422, ptr, "this must be a string")
	}
	return nil
}

func checkLimit(text string, limit int64, ptr string) error {
	if int64(utf8.RuneCountInString(text)) <= limit {
		return nil
	}
	return malformed(memproxy.FieldSize, 422, ptr, "the value exceeds the block's limit of "+strconv.FormatInt(limit, 10)+" characters")
}

// otherMember reads a member without a specific meaning: its strings are screened, and it is
// forwarded unchanged.
func (d *draft) otherMember(m jsondoc.Member, ptr string) {
	if memproxy.Reserved(m.Name) {
		d.op.Reserved = append(d.op.Reserved, ptr)
		return
	}
	if dim, ok := dims[m.Name]; ok {
		newKey := m.Name == "identifier_key" && len(d.op.Targets) > 0 // for the identity in the path
		others := m.Name == "agent_ids" || m.Name == "manager_agent_id" || m.Name == "other_agent_id"
		d.readClaim(dim, m.Value, ptr, !newKey && !others)
		return
	}
	if d.op.Kind.Writes() {
		d.opt.AddOther(d.op, d.doc, m, ptr, d.newItem(memproxy.ItemMetadata))
	}
}

func (d *decoding) passage(v *jsondoc.Value, ptr string) error {
	target := ""
	if d.op.Kind == memproxy.Correct && len(d.op.Targets) > 0 {
		target = d.op.Targets[0]
	}
	d.cost++
	return d.members(v, ptr, func(m jsondoc.Member, p string) error {
		switch m.Name {
		case "text":
			err := d.textMember(m.Value, p, memproxy.ItemContent)
			if n := len(d.op.Items); n > 0 && d.op.Items[n-1].Pointer == p {
				d.op.Items[n-1].Target = target
			}
			return err
		case "metadata", "metadata_":
			return d.metadata(m.Value, p)
		case "created_at":
			d.backdated(m.Value, p)
			return nil
		case "tags":
			d.originClaims.AddCategories(m.Value)
		case "id":
			if target != "" && m.Value.Text() != target {
				return malformed(memproxy.ScopeConflict, 422, p, "the body and the path name different passages")
			}
		}
		d.otherMember(m, p)
		return nil
	})
}

func (d *draft) backdated(v *jsondoc.Value, ptr string) {
	if v.Kind != jsondoc.Null && d.op.Kind.Writes() {
		d.op.Backdated = append(d.op.Backdated, memproxy.ClientTime{Pointer: ptr, Raw: string(d.doc.Raw(v))})
	}
}

func (d *draft) metadata(v *jsondoc.Value, ptr string) error {
	switch {
	case v.Kind == jsondoc.Null:
		return nil
	case v.Kind != jsondoc.Object && d.op.Kind.Writes():
		return malformed(memproxy.PayloadMalformed, 422, ptr, "metadata must be an object")
	}
	d.opt.AddMetadata(d.op, d.doc, v, ptr, d.newItem(memproxy.ItemMetadata), &d.originClaims, "")
	return nil
}
