package letta

import (
	"slices"

	"github.com/memproxy/memproxy"
)

// Brings implements the gate's bringer: the blocks that are attached, one by
// one or named in an agent or a group. Archives and folders are not: what comes
// out of them is judged when an agent searches.
func (a *Adapter) Brings(rt memproxy.Route, op *memproxy.Operation) []string {
	switch op.Kind {
	case memproxy.Attach, memproxy.Learn, memproxy.Correct:
	default:
		return nil
	}
	named := rt.ID == "letta.attach_core_memory_block" || rt.ID == "letta.attach_block_to_group"
	var out []string
	for _, id := range op.Targets {
		// A block in the path is what the request is about: changed, or taken away.
		if KindOf(id) == TargetBlock && (named || id != rt.Params["block_id"]) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
