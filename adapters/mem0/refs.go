package mem0

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// maxLoose bounds the references that are looked up for one request. What comes
// after is text to the backend, as all of them may be.
const maxLoose = 256

// loose notes the values of a payload that have the form of an id: a source, a
// linked memory, an id in metadata. The platform takes what stands there as it
// is, so that one need not be an id at all. What is said in messages is text.
func (d *decoding) loose(v *jsondoc.Value, ptr string) {
	switch v.Kind {
	case jsondoc.String:
		if id := v.Text(); spelling.UUID(id) && len(d.op.Refs) < maxLoose {
			d.op.Refs = append(d.op.Refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: id, Pointer: ptr, Loose: true})
		}
	case jsondoc.Array:
		for i, e := range v.Elems {
			d.loose(e, jsondoc.Index(ptr, i))
		}
	case jsondoc.Object:
		for _, m := range v.Members {
			switch m.Name {
			case "content", "text", "memory", "data", "query", "custom_instructions", "prompt":
			default:
				d.loose(m.Value, jsondoc.Child(ptr, m.Name))
			}
		}
	}
}
