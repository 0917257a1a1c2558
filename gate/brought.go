package gate

import (
	"slices"

	"github.com/memproxy/memproxy"
)

// A Bringer is an Adapter some of whose operations bring existing memories
// where an agent reads them, without their texts in the payload: a block that
// is attached to another agent.
type Bringer interface {
	// Brings returns those of the operation's targets. What an operation takes
	// away, or replaces, is none of them.
	Brings(memproxy.Route, *memproxy.Operation) []string
}

// brings are the targets that come before an agent by this operation, as far
// as anybody judges texts.
func (r *run) brings() []string {
	b, ok := r.call.Backend.Adapter.(Bringer)
	if !ok || r.rules.Screener == nil {
		return nil
	}
	return b.Brings(r.call.Route, r.op)
}

// brought are the texts of what the operation brings, as the backend has them:
// items beside its own, for screening only. They are written by nobody now, so
// they are no content; where they stand is told by the target's id.
func (r *run) brought() []memproxy.Item {
	var out []memproxy.Item
	for _, id := range r.brings() {
		m := r.op.Current[id]
		if m.Missing || m.Text == "" {
			continue
		}
		out = append(out, memproxy.Item{Kind: memproxy.ItemMetadata, Pointer: "target:" + id, Text: m.Text, Field: m.Field, Layer: m.Layer, Target: id})
	}
	return out
}

// screened are the operation's items and those that it brings: findings are of
// one of them.
func (r *run) screened() []memproxy.Item {
	if extra := r.brought(); len(extra) > 0 {
		return slices.Concat(r.op.Items, extra)
	}
	return r.op.Items
}
