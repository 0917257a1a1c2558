package gate

import (
	"context"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
)

// written filters by owners what the answer to a write shows: a backend whose
// model decides what a write becomes may have changed others' memories for it,
// and tells their texts. What the ledger does not know has just come to be,
// unless it says that it is somebody else's. It comes after what was made of the
// write was looked at, which must see all of it.
func (ret *returning) written(ctx context.Context) (refused bool, err error) {
	memories := ret.reading.Memories
	ids := map[memproxy.TargetKind][]string{}
	for i := range memories {
		if m := &memories[i]; m.ID != "" && !m.Drop {
			ids[kindOf(m)] = append(ids[kindOf(m)], m.ID)
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	v := ret.viewer(ret.g.opt.Signer)
	made := slices.Clone(ret.reading.Made)
	rows, err := ret.g.whose(ctx, ret.op.Backend, ids)
	if err == nil {
		ret.known = rows
		var all []memproxy.Ownership
		for _, some := range rows {
			all = slices.AppendSeq(all, maps.Values(some))
		}
		var bare []memproxy.Memory
		for i := range memories {
			if _, known := rows[kindOf(&memories[i])][memories[i].ID]; !known {
				bare = append(bare, memories[i])
				made = append(made, memories[i].ID)
			}
		}
		err = v.lookUp(ctx, ret.g, ret.op.Backend, all, bare)
	}
	if err != nil {
		v.blind, ret.blind = true, true
	}
	// What is asked for by its id was ruled on, and what it holds with it.
	settled := ret.op.Kind != memproxy.Learn && len(ret.op.Targets) > 0 && !ret.deferred()
	hidden := 0
	for i := range memories {
		m := &memories[i]
		row, known := ret.known[kindOf(m)][m.ID]
		switch {
		case m.Drop, slices.Contains(ret.op.Targets, m.ID):
			continue
		case !known && (settled || !v.denies(m, made)):
			continue
		case known && (settled && row.Scope.Tenant == ret.Principal.Tenant || !settled && v.sees(&row, m)):
			continue
		}
		hidden++
		if !isElement(m.Pointer) { // all of the answer is about it
			ret.refuse(StatusNotFound, memproxy.OwnerUnknown, "this names what is not there for this caller's tenant")
			return true, nil
		}
		m.Drop = true
	}
	if hidden > 0 {
		ret.filtered += hidden
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "memories of others were left out of the answer"})
	}
	return false, nil
}

// previous leaves out the texts that stood there before a write, where nobody
// can say whose they were, or they look like attacks.
func (ret *returning) previous(ctx context.Context) (refused bool, err error) {
	if !ret.answers {
		return false, nil // of reads, earlier texts are judged with the memory: Memory.Also
	}
	v := ret.viewer(ret.g.opt.Signer)
	memories := ret.reading.Memories
	before := make([]memproxy.Memory, len(memories))
	for i := range memories {
		m := &memories[i]
		if _, known := ret.known[kindOf(m)][m.ID]; m.Before != "" && !known && !ret.rules.OneTenant && !v.declared {
			m.Bare = true
		}
		before[i] = memproxy.Memory{Text: m.Before, Field: m.Field, Drop: m.Drop || m.Bare}
	}
	risks, err := ret.risks(ctx, before)
	for i, risk := range risks {
		memories[i].Bare = memories[i].Bare || risk >= ret.rules.Withhold
	}
	return false, err
}

// oneOwner reports whether the backend made an answer from memories of the
// caller's tenant alone: the tenant is alone there, or the operation is narrowed
// to owners that the ledger knows to be the tenant's, and nothing speaks against
// the backend having kept to that.
func oneOwner(ret *returning) bool {
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
			row, known := ret.named[memproxy.TargetEntity][memproxy.OwnerID(c.Dim, name)]
			if !known || row.Scope.Tenant != ret.Principal.Tenant {
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
func (ret *returning) related(ctx context.Context) (refused bool, err error) {
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
