package letta

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// maxNamed bounds the objects that are looked up for one answer. The largest answer
// with the server's default limits is fifty agents with everything attached.
const maxNamed = 20000

// Names implements the gate's AgentRunner. It returns a reference for every id in an
// answer, at any depth, whether the answer contains the object or only its id. A string
// with the form of an id counts unless its member is known to hold free text.
func (a *Adapter) Names(_ memproxy.Route, reply memproxy.Reply) ([]memproxy.Ref, error) {
	doc, err := jsondoc.ParseReply(reply)
	if err != nil {
		return nil, err
	}
	refs := appendNamed(nil, "", doc.Root, "")
	if len(refs) > maxNamed {
		return nil, errShape
	}
	return refs, nil
}

func appendNamed(refs []memproxy.Ref, name string, v *jsondoc.Value, ptr string) []memproxy.Ref {
	if len(refs) > maxNamed {
		return refs
	}
	if v.Kind == jsondoc.String && !freeText[name] && hasIDForm(v.Text()) {
		return append(refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: v.Text(), Pointer: ptr})
	}
	for i, e := range v.Elems {
		refs = appendNamed(refs, name, e, jsondoc.Index(ptr, i))
	}
	for _, m := range v.Members {
		at := jsondoc.Child(ptr, m.Name)
		if m.Name == "id" && m.Value.Kind == jsondoc.String {
			at = ptr // the whole object is removed
		}
		refs = appendNamed(refs, m.Name, m.Value, at)
	}
	return refs
}

// RemovePointers implements the gate's AgentRunner: it removes elements of lists, and sets
// members to null.
func (a *Adapter) RemovePointers(reply memproxy.Reply, gone []string) ([]byte, error) {
	doc, err := jsondoc.ParseReply(reply)
	if err != nil {
		return nil, err
	}
	e := doc.Edit()
	for _, ptr := range gone {
		if ptr == "" {
			return nil, errWhole
		}
		switch parent := doc.At(ptr[:strings.LastIndexByte(ptr, '/')]); {
		case parent == nil:
		case parent.Kind == jsondoc.Array:
			e.Remove(ptr)
		default:
			e.Replace(doc.At(ptr), []byte("null"))
		}
	}
	return e.Apply(), nil
}

// Attaches implements the gate's AgentRunner. It returns the blocks that a request attaches,
// lists in an agent or a group, or copies into a conversation by label. Content of archives
// and folders is checked when an agent searches it.
func (a *Adapter) Attaches(rt memproxy.Route, op *memproxy.Operation) []string {
	switch op.Kind {
	case memproxy.Attach, memproxy.Learn, memproxy.Correct:
	default:
		return nil
	}
	if strings.Contains(rt.ID, "/") {
		return nil // a call or a change of an agent's run has all its texts
	}
	named := rt.ID == "letta.attach_core_memory_block" || rt.ID == "letta.attach_block_to_group"
	var out []string
	for _, id := range op.Targets {
		// Other routes only change or detach the block in their path.
		copied := KindOf(id) == TargetLabel && rt.ID == "letta.create_conversation"
		if (copied || KindOf(id) == TargetBlock && (named || id != rt.Params["block_id"])) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
