package gate

import (
	"context"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
)

// written filters what the answer to a write tells of memories: a backend whose
// model decides what a write becomes may have changed others' memories for it,
// and tells their texts. It comes after what was made of the write was looked
// at, which must see all of it, and hides without forgetting.
func (ret *returning) written(ctx context.Context) error {
	memories := ret.reading.Memories
	var ids []string
	for i := range memories {
		if m := &memories[i]; m.ID != "" && kindOf(m) == memproxy.TargetMemory {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	v := ret.Admission.viewer(ret.g.opt.Signer)
	rows, err := ret.g.opt.Ledger.Owners(ctx, ret.op.Backend, memproxy.TargetMemory, ids)
	if err != nil {
		ret.g.opt.Meter.LedgerFailed(ctx) // nobody knows whose any of them are
	} else if err := v.lookUp(ctx, ret.g, ret.op.Backend, slices.Collect(maps.Values(rows)), nil); err != nil {
		ret.g.opt.Meter.LedgerFailed(ctx)
		v.blind = true
	}
	before := make([]memproxy.Memory, len(memories))
	hidden := 0
	for i := range memories {
		m := &memories[i]
		row, known := rows[m.ID]
		switch {
		case known && !v.sees(&row, m):
			m.Hidden = true
			hidden++
		case m.Before != "" && !known && !ret.rules.OneTenant && !v.declared:
			m.Bare = true
		}
		before[i] = memproxy.Memory{Text: m.Before, Field: m.Field, Drop: m.Hidden || m.Bare}
	}
	risks, err := ret.risks(ctx, before)
	if err != nil {
		return err
	}
	for i, risk := range risks {
		memories[i].Bare = memories[i].Bare || risk >= ret.rules.Withhold
	}
	if hidden > 0 {
		ret.filtered += hidden
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "memories of others were left out of the answer"})
	}
	return nil
}

// related rules on relations, which are drawn from memories and do not say
// from which: they are shown where the operation names an owner, whom every
// step before held to the tenant, and none of them looks like an attack.
func (ret *returning) related(ctx context.Context) error {
	if len(ret.reading.Relations) == 0 {
		return nil
	}
	named := ret.rules.OneTenant || ret.Admission.viewer(ret.g.opt.Signer).declared
	for _, d := range dimensions {
		named = named || pins(ret.op.Claims, d)
	}
	if ret.reading.Unrelated = !named; !named {
		return nil
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
	return err
}
