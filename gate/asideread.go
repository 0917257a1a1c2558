package gate

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
)

// byDecision adds to what is known of an answer's memories the states of the
// writes that they came of, where those were set aside and the memories' own
// states are of another time. It remembers them by id from then on. Hide are
// the places of memories of which nobody can say by what write they came, on
// routes that could show one that was set aside.
func (ret *returning) byDecision(ctx context.Context) (hide []int) {
	carrier, ok := ret.call.Backend.Adapter.(Carrier)
	if !ok {
		return nil
	}
	known := ret.lookups()
	made := ret.madeBy(carrier.Bare(ret.call.Route))
	var ask []memproxy.MemoryKey
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		rec := known.of(kindOf(m), m.ID)
		switch d := made[i]; {
		case m.ID == "" || m.Drop || m.Missing:
			made[i] = ""
		case known.err != nil && ret.rules.NeverRefuse: // the ledger is away
			hide = append(hide, i)
			made[i] = ""
		case d == "" && !rec.Rated() && carrier.Bare(ret.call.Route) && ret.rules.NeverRefuse:
			hide = append(hide, i)
		case d != "" && (!rec.Rated() || rec.Status.Decision != d):
			ask = append(ask, known.key(memproxy.TargetDecision, d))
		default:
			made[i] = ""
		}
	}
	if len(ask) == 0 {
		return hide
	}
	if err := known.need(ctx, ask...); err != nil {
		if !ret.rules.NeverRefuse {
			return hide
		}
		for i := range ret.reading.Memories { // nobody knows which of them were set aside
			if made[i] != "" {
				hide = append(hide, i)
			}
		}
		return hide
	}
	ret.settleAside(ctx, made)
	return hide
}

// settleAside gives memories the state of their write.
func (ret *returning) settleAside(ctx context.Context, made []string) {
	known := ret.lookups()
	var changes []memproxy.StateChange
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		write := known.of(memproxy.TargetDecision, made[i])
		if made[i] == "" || !write.Rated() {
			continue
		}
		st, rec := write.Status, known.of(kindOf(m), m.ID)
		old, recorded := rec.Status, rec.Rated()
		person := st.Reviewed != ""
		if st.State == memproxy.StateUntrusted || (person || st.State == memproxy.StatePending) && !ret.first(&st, &old, recorded) {
			continue
		}
		st.MemoryKey = memproxy.MemoryKey{Backend: ret.op.Backend, Kind: kindOf(m), ID: m.ID}
		if recorded {
			st.Contested, st.Pinned, st.Expires = old.Contested, old.Pinned, old.Expires
			if old.State == memproxy.StateQuarantined {
				st.State = old.State
			}
		}
		if person {
			st.Text, st.Reviewed = memproxy.TextSHA256(m.Text), memproxy.TextSHA256(m.Text)
		}
		known.rate(st)
		if st.Kind != memproxy.TargetEvent {
			changes = append(changes, memproxy.StateChange{
				MemoryKey: st.MemoryKey, Tenant: st.Tenant, State: st.State, Decision: st.Decision, Attestation: st.Attestation, Rules: st.Rules, Reason: st.Reason,
				Person: person, Text: st.Text, Expires: st.Expires,
			})
		}
	}
	if len(changes) == 0 {
		return
	}
	_ = ret.g.opt.Ledger.Commit(ctx, memproxy.Entry{States: changes}) // if it fails, the next read does it
}

// approvalBinds is how long what carries an approved write's stamp is taken for
// what came of it. A stamp can be copied by who writes into the backend itself;
// an extraction is over long before.
const approvalBinds = 24 * time.Hour

// first reports whether a memory has the status that its write was foreseen to give it: it came
// to be by that write, or nobody looked at it before. Of an approval it is, in
// addition, not too late.
func (ret *returning) first(st, old *memproxy.Status, recorded bool) bool {
	if recorded && old.State != memproxy.StateUntrusted && old.State != memproxy.StateExpired {
		return false
	}
	return st.Reviewed == "" || ret.begun.Sub(st.Changed) < approvalBinds
}

// madeBy are the decisions by which an answer's memories came to be, by place,
// as far as their stamps tell, or on a bare route the ledger and what was
// fetched. "" is nobody knows.
func (ret *returning) madeBy(bare bool) []string {
	made := make([]string, len(ret.reading.Memories))
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		if made[i] = ret.stamped(m.Stamp); made[i] != "" || !bare || m.ID == "" {
			continue
		}
		if made[i] = ret.stamped(ret.op.Current[m.ID].Stamp); made[i] != "" {
			continue
		}
		rec := ret.lookups().of(kindOf(m), m.ID)
		made[i] = rec.Owner.Decision
	}
	return made
}

// stamped is the decision that a stamp names, if it is ours.
func (ret *returning) stamped(s *memproxy.Stamp) string {
	if s == nil {
		return ""
	}
	own := *s
	own.Tenant = ret.Principal.Tenant
	if !ret.g.opt.Signer.Verify(own) {
		return ""
	}
	return own.ID
}

// recall remembers the state of targets that were found in the backend, and
// that nothing is known of, by the writes that they came of: a change may take
// the stamp away that tells it.
func (r *run) recall(ctx context.Context) {
	if _, carries := r.call.Backend.Adapter.(Carrier); !carries || r.dry {
		return
	}
	known := r.lookups()
	ret := &returning{Admission: r.Admission, g: r.g, looked: known, reading: &memproxy.Reading{}}
	for id, m := range r.op.Current {
		if _, known := r.owners[id]; !known && m.ID != "" && !m.Missing && ret.stamped(m.Stamp) != "" {
			ret.reading.Memories = append(ret.reading.Memories, m)
		}
	}
	if len(ret.reading.Memories) == 0 {
		return
	}
	made := ret.madeBy(false)
	keys := known.keys(memproxy.TargetDecision, made...)
	for i := range made {
		keys = append(keys, known.key(memproxy.TargetMemory, ret.reading.Memories[i].ID))
	}
	if err := known.need(ctx, keys...); err != nil {
		return
	}
	for i := range made {
		if rec := known.of(memproxy.TargetMemory, ret.reading.Memories[i].ID); rec.Rated() && rec.Status.Decision == made[i] {
			made[i] = "" // it may have been reviewed since
		}
	}
	ret.settleAside(ctx, made)
}

// receipt answers for the receipt of a write that was set aside: whether it is
// written and as what, never what it says.
func (ret *returning) receipt(m *memproxy.Memory, st memproxy.Status) bool {
	adapter := ret.call.Backend.Adapter
	holder, polls := adapter.(Holder)
	extractor, extracts := adapter.(Extractor)
	if !polls || !extracts || kindOf(m) != memproxy.TargetEvent || m.Pointer != "" {
		return false
	}
	memories, over, err := extractor.Extracted(ret.reply)
	if err != nil {
		return false
	}
	h := memproxy.HeldWrite{ID: m.ID, Created: st.Changed, State: memproxy.HoldPending}
	if over {
		h.State, h.Reviewed = memproxy.HoldDone, st.Changed
		for i := range memories {
			h.Result.Memories = append(h.Result.Memories, memories[i].ID)
		}
		if len(memories) == 0 {
			return false // it failed, or came to nothing: the backend says so itself
		}
	}
	ret.reply = holder.Polled(ret.call.Route, ret.call.Request, h)
	ret.shown = append(ret.shown, m.ID)
	return true
}
