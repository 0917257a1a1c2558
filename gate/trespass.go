package gate

import (
	"context"

	"github.com/memproxy/memproxy"
)

// trespassed leaves out of an addition's answer what the backend's model says
// of memories that are not the tenant's: the answer would show their texts, and
// those that they had before. What the model changed of them is put back; what
// it deleted cannot be, and is named. An error of the ledger leaves out all that
// was there before.
func (ret *returning) trespassed(ctx context.Context, extractor Extractor, memories []memproxy.Memory) {
	if !ret.enforced() {
		return
	}
	var ids []string
	var bare []memproxy.Memory
	for i := range memories {
		if m := &memories[i]; m.ID != "" && !m.Drop {
			ids = append(ids, m.ID)
			bare = append(bare, ret.placed(m))
		}
	}
	if len(ids) == 0 {
		return
	}
	v := ret.viewer(ret.g.opt.Signer)
	rows, err := ret.g.opt.Ledger.Owners(ctx, ret.op.Backend, memproxy.TargetMemory, ids)
	if err == nil && !ret.alone() {
		err = v.lookUp(ctx, ret.g, ret.op.Backend, nil, bare)
	}
	for i := range memories {
		m := &memories[i]
		row, known := rows[m.ID]
		old := m.Event != "" && m.Event != eventAdd
		placed := ret.placed(m)
		switch {
		case m.ID == "" || m.Drop || err != nil && !old:
		case err != nil && !ret.alone():
			m.Drop = true // whose it is nobody can say
		case known && row.Scope.Tenant != ret.Principal.Tenant, !known && old && !ret.alone() && v.descent(&placed) == foreignName:
			ret.trespass(ctx, extractor, m)
		}
	}
}

// placed is a memory with the owners of the addition where its event names none.
func (ret *returning) placed(m *memproxy.Memory) memproxy.Memory {
	placed := *m
	if !placed.Scope.Owned() {
		placed.Scope = ret.op.Scope
	}
	return placed
}

func (ret *returning) trespass(ctx context.Context, extractor Extractor, m *memproxy.Memory) {
	why := memproxy.Reason{Code: memproxy.OwnerForeign, Rule: m.ID}
	switch m.Event {
	case "UPDATE":
		ret.reasons = append(ret.reasons, ret.retract(ctx, extractor, m, why))
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
