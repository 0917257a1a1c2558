package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// oneOwner reports whether the backend made an answer from memories of the
// caller's tenant alone: the tenant is alone there, or the operation is narrowed
// to owners that the ledger knows to be the tenant's, and nothing speaks against
// the backend having kept to that.
func oneOwner(ret *answer) bool {
	if ret.alone() {
		return true
	}
	if ret.blind || len(ret.op.Masked) > 0 || ret.leftovers.unreadable > 0 || slices.ContainsFunc(ret.reading.Memories, func(m memproxy.Memory) bool { return m.Drop }) {
		return false
	}
	pinned := false
	for i := range ret.op.Claims {
		c := &ret.op.Claims[i]
		if !c.Pins || c.Op != memproxy.ClaimIs || c.Dim == memproxy.DimActor {
			continue
		}
		for _, name := range c.Values {
			row := ret.named.owner(memproxy.TargetEntity, memproxy.OwnerID(c.Dim, name))
			if row == nil || row.Scope.Tenant != ret.Principal.Tenant {
				return false
			}
			pinned = true
		}
	}
	return pinned
}

// related rules on totals and relations, which are drawn from memories and do
// not say from which: they are shown where those are the tenant's, and no
// relation looks like an attack.
func related(ctx context.Context, ret *answer) (refused bool, err error) {
	ret.reading.Mixed = !oneOwner(ret)
	if len(ret.reading.Relations) == 0 {
		return false, nil
	}
	if ret.reading.Unrelated = ret.reading.Mixed; ret.reading.Unrelated {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "relations that may be of others were left out of the answer"})
		return false, nil
	}
	texts := make([]memproxy.Memory, len(ret.reading.Relations))
	for i, text := range ret.reading.Relations {
		texts[i].Text = text
	}
	risks, err := ret.risks(ctx, texts)
	for _, risk := range risks {
		ret.reading.Unrelated = ret.reading.Unrelated || risk >= ret.rules.Withhold
	}
	if ret.reading.Unrelated {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.ScreenWithheld, Detail: "relations that look like attacks were left out of the answer"})
	}
	return false, err
}

// trespassed leaves out of an addition's answer what the backend's model says
// of memories that are not the tenant's: the answer would show their texts, and
// those that they had before. What the model changed of them is put back; what
// it deleted cannot be, and is named. An error of the ledger leaves out all that
// was there before.
func (ret *making) trespassed(ctx context.Context) {
	if !ret.enforced() {
		return
	}
	known := ret.lookups()
	var keys []memproxy.MemoryKey
	var bare []memproxy.Memory
	for i := range ret.memories {
		if m := &ret.memories[i]; m.ID != "" && !m.Drop {
			keys = append(keys, known.key(memproxy.TargetMemory, m.ID))
			if !ret.alone() {
				bare = append(bare, ret.placed(m))
			}
		}
	}
	if len(keys) == 0 {
		return
	}
	v := ret.viewer(ret.g.opt.Signer, known)
	err := v.lookUp(ctx, ret.g, nil, bare, keys...)
	for i := range ret.memories {
		m := &ret.memories[i]
		row := known.owner(memproxy.TargetMemory, m.ID)
		old := m.Event != "" && m.Event != eventAdd
		placed := ret.placed(m)
		switch {
		case m.ID == "" || m.Drop || err != nil && !old:
		case err != nil && !ret.alone():
			m.Drop = true // whose it is nobody can say
		case row != nil && row.Scope.Tenant != ret.Principal.Tenant, row == nil && old && !ret.alone() && v.Descent(&placed) == access.Foreign:
			ret.trespass(ctx, m)
		}
	}
}

// placed is a memory with the owners of the addition where its event names none.
func (ret *making) placed(m *memproxy.Memory) memproxy.Memory {
	placed := *m
	if !placed.Scope.Owned() {
		placed.Scope = ret.op.Scope
	}
	return placed
}

func (ret *making) trespass(ctx context.Context, m *memproxy.Memory) {
	why := memproxy.Reason{Code: memproxy.OwnerForeign, Rule: m.ID}
	switch m.Event {
	case "UPDATE":
		ret.reasons = append(ret.reasons, ret.retract(ctx, m, why))
		return
	case eventDelete:
		why.Detail = "the backend's model deleted a memory of another tenant"
		ret.g.opt.Log.ErrorContext(ctx, why.Detail, "decision", ret.Decision.ID, "memory", memproxy.InertID(m.ID))
	default:
		why.Detail = "what the backend said of a memory of another tenant was left out of the answer"
	}
	m.Drop = true
	ret.filtered++
	ret.reasons = append(ret.reasons, why)
}
