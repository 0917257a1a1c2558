package mem0

import (
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// maxLoose bounds the references that are looked up for one request. Further values are
// treated as text: the platform accepts any text in these places.
const maxLoose = 3 * 256

// addLooseRefs records the values of a payload that have the form of an id, such as a
// source or a linked memory. The platform accepts any value there, so such a reference is
// loose: it need not identify an object.
func addLooseRefs(op *memproxy.Operation, v *jsondoc.Value, ptr string) {
	addLooseIDs(op, v.Text(), ptr)
	for i, e := range v.Elems {
		addLooseRefs(op, e, jsondoc.Index(ptr, i))
	}
	for _, m := range v.Members {
		if m.Value.End-m.Value.Start >= spelling.UUIDLen && mayRefer(m.Name) {
			addLooseRefs(op, m.Value, jsondoc.Child(ptr, m.Name))
		}
	}
}

// mayRefer reports whether an id in a member with this name may be a reference.
func mayRefer(name string) bool {
	_, owner := dimOf(name)
	return !owner && !noReferences[name]
}

// addLooseIDs records the ids in a text with one id, or several separated by commas. The
// kind of object is unknown, so a reference of each kind is recorded.
func addLooseIDs(op *memproxy.Operation, text, ptr string) {
	if len(text) < spelling.UUIDLen {
		return
	}
	for id := range strings.SplitSeq(text, ",") {
		if id = strings.TrimSpace(id); !spelling.IsUUID(id) {
			continue
		}
		for _, kind := range [...]memproxy.TargetKind{memproxy.TargetMemory, memproxy.TargetEvent, memproxy.TargetExport} {
			if len(op.Refs) < maxLoose {
				op.Refs = append(op.Refs, memproxy.Ref{Kind: kind, ID: id, Pointer: ptr, Loose: true})
			}
		}
	}
}
