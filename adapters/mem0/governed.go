package mem0

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// fieldAssignment is a member of a payload that assigns content to governed fields, such as
// category.
type fieldAssignment struct {
	at     string   // its pointer
	prefix string   // of the pointers to which it applies: its own entry in a batch, else all
	fields []string // its names
}

// isFieldKey reports whether a member of metadata assigns the memory's content to a governed
// field.
func isFieldKey(own, name string) bool {
	return name == own || name == "category" || name == "categories"
}

// maxFields bounds the fields of one member: every piece of content is ruled on in each.
const maxFields = 32

// recordFieldAssignment records the governed fields that a member names: one, or a list.
func (d *decoding) recordFieldAssignment(v *jsondoc.Value, ptr, prefix string) error {
	names, ok := fieldNames(d.doc, v)
	if !ok {
		return malformed(memproxy.PayloadMalformed, 422, ptr, "a governed field (category) must be a name or a list of names")
	}
	if len(names) > maxFields {
		return malformed(memproxy.PayloadTooMany, 413, ptr, fmt.Sprintf("the request names %d governed fields (categories) in one place; at most %d are accepted", len(names), maxFields))
	}
	if len(names) > 0 {
		// The content may follow in the payload, so assignFields applies it at the end.
		d.fieldAssignments = append(d.fieldAssignments, fieldAssignment{at: ptr, prefix: prefix, fields: names})
	}
	return nil
}

// fieldNames returns the names in a value: a string, a number or a boolean as it is
// written, or a list of these.
func fieldNames(doc *jsondoc.Doc, v *jsondoc.Value) (names []string, ok bool) {
	switch v.Kind {
	case jsondoc.Null:
	case jsondoc.String:
		if v.Text() != "" {
			names = append(names, v.Text())
		}
	case jsondoc.Number, jsondoc.Bool:
		names = append(names, string(doc.Raw(v)))
	case jsondoc.Array:
		for _, e := range v.Elems {
			more, ok := fieldNames(doc, e)
			if !ok || e.Kind == jsondoc.Array {
				return nil, false
			}
			names = append(names, more...)
		}
	default:
		return nil, false
	}
	return names, true
}

// assignFields sets the governed fields of the content to which they were assigned. A change
// without a text also gets an item, because it writes the existing text to the fields.
func (d *decoding) assignFields() {
	for _, f := range d.fieldAssignments {
		found := false
		for i := range d.op.Items {
			it := &d.op.Items[i]
			if it.Kind == memproxy.ItemContent && strings.HasPrefix(it.Pointer, f.prefix) {
				addFields(it, f.fields)
				found = true
			}
		}
		if !found {
			it := d.movedItem(f.at, f.prefix)
			addFields(&it, f.fields)
			d.op.Items = append(d.op.Items, it)
		}
	}
	if !changes(d.row) {
		return
	}
	for i, target := range d.op.Targets {
		if !slices.ContainsFunc(d.op.Items, func(it memproxy.Item) bool { return it.Kind == memproxy.ItemContent && it.Target == target }) {
			ptr := ""
			if d.row.Shape == batch {
				ptr = jsondoc.Index("/memories", i)
			}
			d.op.Items = append(d.op.Items, memproxy.Item{Kind: memproxy.ItemContent, Pointer: ptr, Layer: memproxy.Semantic, Target: target, Moved: true})
		}
	}
}

// movedItem returns the item for a memory that gets other fields without a new text.
func (d *decoding) movedItem(ptr, prefix string) memproxy.Item {
	it := memproxy.Item{Kind: memproxy.ItemContent, Pointer: ptr, Layer: memproxy.Semantic, Moved: true}
	switch {
	case d.op.Kind != memproxy.Correct:
	case d.row.Shape == batch:
		it.Target = d.doc.At(strings.TrimSuffix(prefix, "/")).Get("memory_id").Text()
	case len(d.op.Targets) > 0:
		it.Target = d.op.Targets[0]
	}
	return it
}

func addFields(it *memproxy.Item, fields []string) {
	for _, f := range fields {
		switch {
		case it.Field == "":
			it.Field = f
		case it.Field != f && !slices.Contains(it.OtherFields, f):
			it.OtherFields = append(it.OtherFields, f)
		}
	}
}

// fieldsOf returns the governed fields that a memory's metadata names: the first one, which
// is the memory's field, and the others.
func fieldsOf(own string, doc *jsondoc.Doc, meta *jsondoc.Value) (field string, filed []string) {
	var it memproxy.Item
	for _, name := range [...]string{own, "category", "categories"} {
		if v := meta.Get(name); v != nil {
			names, _ := fieldNames(doc, v)
			addFields(&it, names)
		}
	}
	return it.Field, it.OtherFields
}
