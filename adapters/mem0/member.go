package mem0

import (
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/origin"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// topKey names what is given a meaning at the top level. A name that is one of
// them in another letter case is refused: some parsers would take it for the
// real one.
func topKey(name string) bool {
	switch name {
	case "messages", "deduced_memories", "text", "data", "memory_content", "content", "query", "filters", "metadata",
		"memories", "user_id", "agent_id", "app_id", "run_id", "session_id", "infer", "timestamp", "observation_date",
		"observation_datetime", "memory_id", "memory_export_id", "fields", "categories", "expiration_date", "page",
		"page_size", "use_case":
		return true
	}
	return steeringKey(name)
}

func messageKey(name string) bool { return name == "role" || name == "content" || name == "name" }

func metadataKey(name string) bool {
	switch name {
	case "user_id", "agent_id", "app_id", "run_id", "session_id", "source", "category", "created_at", "updated_at", "timestamp":
		return true
	}
	return false
}

// steeringKey names text that instructs the backend's own model.
func steeringKey(name string) bool {
	switch name {
	case "custom_instructions", "agent_custom_instructions", "includes", "excludes", "custom_categories",
		"structured_data_schema", "prompt", "schema", "export_instructions":
		return true
	}
	return false
}

// configures names what says to the extractor what is worth remembering, and
// what must not be.
func configures(name string) bool {
	return name == "custom_instructions" || name == "includes" || name == "excludes"
}

// cased refuses names that readers could take for known ones: in another
// letter case or in look-alikes of its letters, and another spelling of one
// that is next to it ("userId" next to "user_id").
func cased(v *jsondoc.Value, pointer string, known func(string) bool) error {
	for _, m := range v.Members {
		if known(m.Name) {
			continue
		}
		if low := jsondoc.Fold(m.Name); low != m.Name && known(low) {
			return bad(memproxy.PayloadDuplicate, 400, jsondoc.Child(pointer, m.Name), "a known key in another letter case")
		}
	}
	if m, ok := jsondoc.Alias(v, known); ok {
		return bad(memproxy.PayloadDuplicate, 400, jsondoc.Child(pointer, m.Name), "a known key stands there in two spellings")
	}
	return nil
}

// cased refuses, of an object of the API, what the function of that name does,
// and names that say whose a request is in any other spelling than theirs, also
// where they stand alone.
func (d *decoding) cased(v *jsondoc.Value, pointer string) error {
	if err := cased(v, pointer, topKey); err != nil {
		return err
	}
	if m, ok := d.a.names.Respelled(v); ok {
		return bad(memproxy.PayloadDuplicate, 400, jsondoc.Child(pointer, m.Name), "a known key in another spelling")
	}
	return nil
}

// member reads one top-level member. What has no meaning of its own is still
// content: its strings are screened and it is forwarded as it is.
func (d *decoding) member(m jsondoc.Member, params map[string]string) error {
	ptr := jsondoc.Child("", m.Name)
	v := m.Value
	if memproxy.Reserved(m.Name) {
		d.op.Reserved = append(d.op.Reserved, ptr)
		return nil
	}
	if dim, ok := dimOf(m.Name); ok {
		return d.claim(dim, v, ptr, true, false)
	}
	if dim, ok := entityDim(d.doc.Root.Get("entity_type").Text()); ok && m.Name == "entity_id" {
		if err := d.claim(dim, v, ptr, true, false); err != nil {
			return err
		}
	}
	if steeringKey(m.Name) || d.row.shape == config {
		if v.Kind != jsondoc.Null {
			first := len(d.op.Items)
			d.op.Steering = d.op.Steering || steeringKey(m.Name)
			d.name(m.Name, ptr, memproxy.ItemSteering, "")
			d.strings(v, ptr, memproxy.ItemSteering, "")
			for i := first; i < len(d.op.Items); i++ {
				d.op.Items[i].Configures = configures(m.Name)
			}
		}
		if m.Name == "filters" {
			return d.filters(v, ptr, true, false)
		}
		return nil
	}
	switch m.Name {
	case "messages":
		return d.messages(v, ptr)
	case "deduced_memories":
		return d.texts(v, ptr)
	case "text", "data", "memory_content", "content":
		return d.content(v, ptr, "", params["id"])
	case "query":
		d.op.Items = append(d.op.Items, memproxy.Item{Kind: memproxy.ItemQuery, Pointer: ptr, Text: v.Text()})
		if v.Kind != jsondoc.String {
			return bad(memproxy.PayloadMalformed, 422, ptr, "query must be a string")
		}
		return nil
	case "filters":
		return d.filters(v, ptr, true, false)
	case "metadata":
		return d.metadata(v, ptr)
	case "memories":
		if d.row.shape == batch {
			return d.entries(v, ptr)
		}
	case "memory_id":
		if d.row.shape == update {
			return d.target(v, memproxy.TargetMemory, ptr)
		}
	case "memory_export_id":
		if v.Kind != jsondoc.Null {
			return d.target(v, memproxy.TargetExport, ptr)
		}
	case "timestamp", "observation_date", "observation_datetime":
		if v.Kind != jsondoc.Null && d.op.Kind.Writes() {
			d.op.Backdated = append(d.op.Backdated, memproxy.Stamped{Pointer: ptr, Raw: string(d.doc.Raw(v))})
			return nil
		}
	case "categories", "category":
		if d.op.Kind.Writes() {
			if err := d.filed(v, ptr, "/"); err != nil {
				return err
			}
		}
		d.said.Filed(v)
	case "tags":
		d.said.Filed(v)
	case "memory_type":
		d.said.Layer(v.Text())
	case "infer":
		if v.Kind != jsondoc.Bool && v.Kind != jsondoc.Null {
			return bad(memproxy.PayloadMalformed, 422, ptr, "infer must be true or false")
		}
		return nil
	}
	if d.op.Kind.Writes() || d.op.Kind == memproxy.Admin {
		origin.AssertedBy(d.op, d.doc, m, ptr)
		d.name(m.Name, ptr, memproxy.ItemMetadata, "")
		kind := memproxy.ItemMetadata
		if withheld.Asks(m) {
			kind = memproxy.ItemURL
		}
		d.strings(v, ptr, kind, "")
	}
	return nil
}

// name makes an item of a member's name that is a text rather than a name:
// names come back to agents as values do.
func (d *decoding) name(name, ptr string, kind memproxy.ItemKind, target string) {
	if len(name) <= maxName && !(strings.Contains(ptr, "/metadata") && memproxy.Wordy(name)) && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && r != '$' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return
	}
	d.op.Items = append(d.op.Items, memproxy.Item{Kind: kind, Pointer: ptr, Text: name, Layer: memproxy.Semantic, Target: target})
}

// maxName is how long a name may be and still be one.
const maxName = 40

// strings makes an item of every string in a value.
func (d *decoding) strings(v *jsondoc.Value, ptr string, kind memproxy.ItemKind, target string) {
	switch v.Kind {
	case jsondoc.String:
		if v.Text() != "" {
			d.op.Items = append(d.op.Items, memproxy.Item{Kind: kind, Pointer: ptr, Text: v.Text(), Layer: memproxy.Semantic, Target: target})
		}
	case jsondoc.Object:
		for _, m := range v.Members {
			p := jsondoc.Child(ptr, m.Name)
			d.name(m.Name, p, kind, target)
			d.strings(m.Value, p, kind, target)
		}
	case jsondoc.Array:
		for i, e := range v.Elems {
			d.strings(e, jsondoc.Index(ptr, i), kind, target)
		}
	}
}

// entries reads the memories of a batch.
func (d *decoding) entries(v *jsondoc.Value, ptr string) error {
	if v.Kind != jsondoc.Array {
		return bad(memproxy.PayloadMalformed, 422, ptr, "memories must be a list")
	}
	for i, e := range v.Elems {
		at := jsondoc.Index(ptr, i)
		if e.Kind != jsondoc.Object {
			return bad(memproxy.PayloadMalformed, 422, at, "a batch entry must be an object")
		}
		if err := d.cased(e, at); err != nil {
			return err
		}
		id := e.Get("memory_id")
		if id == nil {
			return bad(memproxy.PayloadMalformed, 422, at, "a batch entry needs a memory_id")
		}
		if err := d.target(id, memproxy.TargetMemory, jsondoc.Child(at, "memory_id")); err != nil {
			return err
		}
		for _, m := range e.Members {
			p := jsondoc.Child(at, m.Name)
			var err error
			switch {
			case m.Name == "memory_id":
			case m.Name == "text":
				err = d.content(m.Value, p, "", id.Text())
			case m.Name == "metadata":
				err = d.metadata(m.Value, p)
			case memproxy.Reserved(m.Name):
				d.op.Reserved = append(d.op.Reserved, p)
			case d.op.Kind == memproxy.Correct && (m.Name == "categories" || m.Name == "category"):
				if err = d.filed(m.Value, p, at+"/"); err == nil {
					d.said.Filed(m.Value)
					d.strings(m.Value, p, memproxy.ItemMetadata, id.Text())
				}
			default:
				if dim, ok := dimOf(m.Name); ok {
					err = d.claim(dim, m.Value, p, false, false)
				} else {
					origin.AssertedBy(d.op, d.doc, m, p)
					d.name(m.Name, p, memproxy.ItemMetadata, id.Text())
					d.strings(m.Value, p, memproxy.ItemMetadata, id.Text())
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
