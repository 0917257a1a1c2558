package mem0

import (
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// maxLoose bounds the references that are looked up for one request. Further ones
// are treated as text, which any of them may be.
const maxLoose = 3 * 256

// loose records the values of a payload that have the form of an id: a source, a
// linked memory. The platform accepts any value there, so it need not be an id at all.
func loose(op *memproxy.Operation, v *jsondoc.Value, ptr string) {
	switch v.Kind {
	case jsondoc.String:
		looseText(op, v.Text(), ptr)
	case jsondoc.Array:
		for i, e := range v.Elems {
			loose(op, e, jsondoc.Index(ptr, i))
		}
	case jsondoc.Object:
		for _, m := range v.Members {
			if m.Value.End-m.Value.Start >= spelling.UUIDLen && refers(m.Name) {
				loose(op, m.Value, jsondoc.Child(ptr, m.Name))
			}
		}
	}
}

// refers reports whether an id under this name may be a reference. Otherwise it is text
// that the backend keeps or searches for, the name of an owner, or of something that the
// credential has: no backend finds an object by it.
func refers(name string) bool {
	switch name {
	case "content", "text", "memory", "data", "query", "custom_instructions", "prompt", "metadata", "categories", "category", "tags",
		"source", "messages", "deduced_memories", "org_id", "project_id", "prompt_profile_id", "webhook_id", "request_id":
		return false
	}
	_, owner := dimOf(name)
	return !owner
}

// looseText records the ids in a text that consists of one id or of several
// separated by commas. The kind of object is unknown.
func looseText(op *memproxy.Operation, text, ptr string) {
	if len(text) < spelling.UUIDLen {
		return
	}
	for id := range strings.SplitSeq(text, ",") {
		if id = strings.TrimSpace(id); !spelling.UUID(id) {
			continue
		}
		for _, kind := range [...]memproxy.TargetKind{memproxy.TargetMemory, memproxy.TargetEvent, memproxy.TargetExport} {
			if len(op.Refs) < maxLoose {
				op.Refs = append(op.Refs, memproxy.Ref{Kind: kind, ID: id, Pointer: ptr, Loose: true})
			}
		}
	}
}
