package mem0

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// steers reports whether a member may instruct the backend's own model: a known steering
// key, or a name with the words of one, which some version of a server may read. Names of
// token counts (prompt_tokens) are excepted. A member such as prompt_version is not,
// because it can select a prompt.
func steers(name string) bool {
	bare := jsondoc.Squash(name)
	return steeringKeys[name] || strings.HasSuffix(bare, "schema") || !strings.HasSuffix(bare, "tokens") &&
		slices.ContainsFunc([]string{"prompt", "instruction", "customcategor"}, func(word string) bool { return strings.Contains(bare, word) })
}

// noClaims checks the spelling of members in messages and metadata, where no member names
// the request's owner.
var noClaims spelling.Names

// member reads one member of the object at a pointer: of the whole payload ("") or of an
// entry of a batch. id is the memory that the object changes, if any.
func (d *decoding) member(m jsondoc.Member, at, id string) error {
	ptr, whole := jsondoc.Child(at, m.Name), at == ""
	of := id // target of items other than content
	if whole {
		of = ""
	}
	if dim, ok := entityDim(d.doc.Root.Get("entity_type").Text()); ok && m.Name == "entity_id" {
		d.claim(dim, m.Value, ptr, true, false)
	}
	switch dim, owner := dimOf(m.Name); {
	case d.isUnknownIDName(m.Name) && hasNonID(m.Value):
		d.op.Unclaimed = append(d.op.Unclaimed, ptr)
	case memproxy.Reserved(m.Name):
		d.op.Reserved = append(d.op.Reserved, ptr)
	case owner:
		d.claim(dim, m.Value, ptr, whole, false)
	case steers(m.Name) || d.row.Shape == config:
		return readInstruction(d, m, ptr, of, whole)
	default:
		if done, err := readKnownMember(d, m, ptr, at, id); done || err != nil {
			return err
		}
		if d.op.Kind.Writes() || d.op.Kind == memproxy.Admin {
			d.a.opt.AddOther(d.op, d.doc, m, ptr, newItem(memproxy.ItemMetadata, of))
		}
	}
	return nil
}

// readInstruction reads a member that instructs the backend's model, or any member of settings.
func readInstruction(d *decoding, m jsondoc.Member, ptr, of string, whole bool) error {
	if m.Value.Kind != jsondoc.Null {
		d.op.Steering = d.op.Steering || steers(m.Name)
		like := newItem(memproxy.ItemSteering, of)
		like.Configures = configures[m.Name]
		wire.AddMember(d.op, m, ptr, like)
	}
	if m.Name == "filters" {
		return d.filters(m.Value, ptr, whole, false)
	}
	return nil
}

// readKnownMember reads a member that has a meaning. done is false if its texts are
// to be read as well.
func readKnownMember(d *decoding, m jsondoc.Member, ptr, at, id string) (done bool, err error) {
	v, whole := m.Value, at == ""
	switch m.Name {
	case "messages":
		return true, d.messages(v, ptr)
	case "deduced_memories":
		return true, d.readTexts(v, ptr)
	case "text", "data", "memory_content", "content":
		if id != "" && m.Name != "text" {
			// A change has its text in the member text. Servers ignore the other members, but
			// old servers store the whole body as the text, so the others are removed.
			d.op.Unclaimed = append(d.op.Unclaimed, ptr)
			return true, nil
		}
		return true, d.content(v, ptr, "", id)
	case "query":
		d.op.Items = append(d.op.Items, memproxy.Item{Kind: memproxy.ItemQuery, Pointer: ptr, Text: v.Text()})
		if v.Kind != jsondoc.String {
			err = malformed(memproxy.PayloadMalformed, 422, ptr, "query must be a string")
		}
		return true, err
	case "filters":
		return true, d.filters(v, ptr, whole, false)
	case "metadata":
		return true, d.metadata(v, ptr)
	case "memories":
		if d.row.Shape == batch && whole {
			return true, d.entries(v, ptr)
		}
	case "memory_id":
		if d.row.Shape == update || !whole {
			return true, addTarget(d.op, v, memproxy.TargetMemory, ptr)
		}
	case "memory_export_id":
		switch {
		case v.Kind == jsondoc.Null:
		case d.row.ID == "mem0.v1.export.get":
			err = addTarget(d.op, v, memproxy.TargetExport, ptr)
		default: // no other route has it, and an export that is not looked up is not forwarded
			d.op.Unclaimed = append(d.op.Unclaimed, ptr)
		}
		return true, err
	case "timestamp", "observation_date", "observation_datetime", "created_at", "updated_at":
		if v.Kind != jsondoc.Null && d.op.Kind.Writes() {
			d.op.Backdated = append(d.op.Backdated, memproxy.ClientTime{Pointer: ptr, Raw: string(d.doc.Raw(v))})
			return true, nil
		}
	case "categories", "category":
		if d.op.Kind.Writes() {
			err = d.recordFieldAssignment(v, ptr, at+"/")
		}
		d.originClaims.AddCategories(v)
	case "tags":
		d.originClaims.AddCategories(v)
	case "memory_type":
		d.originClaims.AddLayer(v.Text())
	case "infer":
		if v.Kind != jsondoc.Bool && v.Kind != jsondoc.Null {
			err = malformed(memproxy.PayloadMalformed, 422, ptr, "infer must be true or false")
		}
		return true, err
	}
	return false, err
}

func newItem(kind memproxy.ItemKind, target string) memproxy.Item {
	return memproxy.Item{Kind: kind, Layer: memproxy.Semantic, Target: target}
}

// maxEntries is the largest batch that the hosted API takes.
const maxEntries = 1000

func (d *decoding) entries(v *jsondoc.Value, ptr string) error {
	if v.Kind != jsondoc.Array {
		return malformed(memproxy.PayloadMalformed, 422, ptr, "memories must be a list")
	}
	if len(v.Elems) > maxEntries {
		return malformed(memproxy.PayloadTooMany, 413, ptr, fmt.Sprintf("the request names %d memories; at most %d are accepted", len(v.Elems), maxEntries))
	}
	named := make(map[string]bool, len(v.Elems))
	for i, e := range v.Elems {
		at := jsondoc.Index(ptr, i)
		if e.Kind != jsondoc.Object {
			return malformed(memproxy.PayloadMalformed, 422, at, "a batch entry must be an object")
		}
		if err := d.a.names.CheckMembers(e, at, topKeys); err != nil {
			return err
		}
		id := e.Get("memory_id")
		if id == nil {
			return malformed(memproxy.PayloadMalformed, 422, at, "a batch entry needs a memory_id")
		}
		if named[id.Text()] && d.op.Kind != memproxy.Forget { // the backend would lose one of two changes
			return malformed(memproxy.PayloadDuplicate, 400, at, "the batch names a memory more than once")
		}
		named[id.Text()] = true
		for _, m := range e.Members {
			if err := d.member(m, at, id.Text()); err != nil {
				return err
			}
		}
	}
	return nil
}
