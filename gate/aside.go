package gate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// setAside turns a ruling against what a new memory says into a state of the
// memory (DOL-2): it is written, and the state decides what is shown of it. A
// ruling that has any other reason stands, and so does one about a credential,
// which is a leak wherever it lies.
func setAside(r *run, ruling *memproxy.Ruling) {
	if !r.rules.NeverRefuse || !r.enforced() || !ruling.Verdict.Stops() || r.verdict.worst.Stops() || r.op.Kind != memproxy.Learn {
		return
	}
	carrier, ok := r.call.Backend.Adapter.(Carrier)
	if !ok || !carrier.Carries(r.call.Route, r.op) || slices.ContainsFunc(ruling.Reasons, func(why memproxy.Reason) bool {
		return why.Code != memproxy.ScreenRisk
	}) {
		return
	}
	r.aside = memproxy.StateFlagged
	if ruling.Verdict == memproxy.Deny {
		r.aside = memproxy.StateQuarantined
	}
	ruling.Verdict, ruling.Led = memproxy.Amend, 0
	ruling.Reasons = append(ruling.Reasons, memproxy.Reason{
		Code: memproxy.ScreenStored, Detail: "written as " + string(r.aside) + ": its state decides what is shown of it",
	})
}

// unfiltered refuses what is made of many memories at once where some of them
// must not be shown: it cannot be taken apart.
func unfiltered(r *run) {
	if r.rules.NeverRefuse && r.op.Kind == memproxy.Recall && r.op.Derived {
		r.verdict.refuse(StatusForbidden, memproxy.Reason{
			Code:   memproxy.StateWithheld,
			Detail: "this is made of all memories, also of those that are written and must not be shown (memories.never_refuse)",
		})
	}
}

// ordinary: what the write makes is an ordinary memory, or nothing is made.
func ordinary(r *run) bool {
	return r.Decision.Verdict.Stops() || !r.confirmed && r.aside == "" && !r.waits() || !r.traceable()
}

// putAside notes the state of what a write will make, by its decision, before
// it is sent, where that is another than an ordinary memory's: from its first
// moment on nobody reads it as one, whether this process is there then or not.
// What cannot be noted is refused.
func putAside(ctx context.Context, r *run) error {
	change, ordinary := foreseen(r.Admission, memproxy.MemoryKey{Backend: r.op.Backend, Kind: memproxy.TargetDecision, ID: r.Decision.ID})
	if ordinary {
		return nil
	}
	if ttl := lifetime(r.Admission, &memproxy.Memory{}); ttl > 0 {
		change.Expires = r.begun.Add(ttl)
	}
	return commit(ctx, r.g, &r.Decision, memproxy.Entry{States: []memproxy.StateChange{change}}, "the state of a write could not be noted")
}

// traceable reports whether what the write makes can be told by its stamp.
func (a *Admission) traceable() bool {
	if a.op == nil || a.op.Kind != memproxy.Learn || !a.enforced() {
		return false
	}
	carrier, ok := a.call.Backend.Adapter.(Carrier)
	return ok && carrier.Carries(a.call.Route, a.op)
}

// foreseen is the state that something will have which the write makes, or
// ordinary.
func foreseen(a *Admission, k memproxy.MemoryKey) (c memproxy.StateChange, ordinary bool) {
	c = memproxy.StateChange{
		MemoryKey: k, Tenant: a.Principal.Tenant, Decision: a.Decision.ID, Attestation: a.attested(a.marks),
		From: []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateExpired},
	}
	switch {
	case a.confirmed:
		c.State, c.Reason, c.Person = memproxy.StateValidated, reasonApproved, true
	case a.aside != "":
		return asideOf(a, k), false
	case a.waits():
		c.State, c.Reason = memproxy.StatePending, reasonWaits
	default:
		return c, true
	}
	return c, false
}

// Why memories stand as they do when they come to be.
const (
	reasonApproved = "approved by a reviewer"
	reasonWaits    = "its author or its source is not trusted enough to be read without a review"
)

// asideOf is the state of something that a write made which is set aside. What
// was quarantined before stays so.
func asideOf(a *Admission, k memproxy.MemoryKey) memproxy.StateChange {
	c := memproxy.StateChange{
		MemoryKey: k, Tenant: a.Principal.Tenant, State: a.aside, Decision: a.Decision.ID, Attestation: memproxy.SelfReported,
		Rules: a.rules.Version, Reason: "it looked dangerous when it was written",
	}
	for _, s := range memproxy.MemoryStates {
		if s != memproxy.StateQuarantined {
			c.From = append(c.From, s)
		}
	}
	return c
}

// spansIn are the findings of a write that hold for a memory's text: those of
// the one item that the backend took over word for word. Of any other text
// nothing is known, and all of it is replaced.
func spansIn(a *Admission, m *memproxy.Memory) []memproxy.Finding {
	if a.aside != memproxy.StateFlagged || m.Text == "" {
		return nil
	}
	for i := range a.op.Items {
		if a.op.Items[i].Kind != memproxy.ItemContent || a.op.Items[i].Text != m.Text {
			continue
		}
		var spans []memproxy.Finding
		for _, f := range a.findings {
			if f.Item == i && f.Rule != string(memproxy.ScreenRisk) && f.Start >= 0 && f.End > f.Start && f.End <= len(m.Text) {
				spans = append(spans, f)
			}
		}
		return spans
	}
	return nil
}

// asideLater gives what became of a write its state, once its ids are known.
func (ret *making) asideLater(ctx context.Context) error {
	if ret.aside == "" {
		return nil
	}
	var changes []memproxy.StateChange
	for i := range ret.memories {
		if m := &ret.memories[i]; m.ID != "" && m.Event != eventNone && m.Event != eventDelete {
			c := asideOf(ret.Admission, memproxy.MemoryKey{Backend: ret.op.Backend, Kind: kindOf(m), ID: m.ID})
			c.Findings, c.Text = spansIn(ret.Admission, m), memproxy.TextSHA256(m.Text)
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return ret.g.opt.Ledger.Commit(ctx, memproxy.Entry{States: changes})
}

// byDecision adds to what is known of an answer's memories the states of the
// writes that they came of, where those were set aside and the memories' own
// states are of another time. It remembers them by id from then on. Memories that
// could be of a write that was set aside, where that cannot be told, are withheld
// if the rules never refuse.
func byDecision(ctx context.Context, ret *answer) {
	carrier, ok := ret.call.Backend.Adapter.(Carrier)
	if !ok {
		return
	}
	known, bare := ret.lookups(), carrier.Bare(ret.call.Route)
	made := origins(ret, bare)
	var ask []memproxy.MemoryKey
	for i := range ret.items {
		it, d := &ret.items[i], made[i]
		made[i] = ""
		switch {
		case it.ID == "" || it.Drop || it.Missing:
		case known.err != nil && ret.rules.NeverRefuse, d == "" && !it.rec.Rated() && bare && ret.rules.NeverRefuse:
			it.unsaid = unsaidWrite
		case d != "" && (!it.rec.Rated() || it.rec.Status.Decision != d):
			made[i] = d
			ask = append(ask, known.key(memproxy.TargetDecision, d))
		}
	}
	if len(ask) == 0 {
		return
	}
	if err := known.need(ctx, ask...); err == nil {
		settleAside(ctx, ret, made)
		return
	}
	for i := range ret.items { // which of them were set aside is not known
		if made[i] != "" && ret.rules.NeverRefuse {
			ret.items[i].unsaid = unsaidWrite
		}
	}
}

const unsaidWrite = "the write that the memory came of is not known, and it is withheld"

// settleAside gives memories the state of their write.
func settleAside(ctx context.Context, ret *answer, made []string) {
	known := ret.lookups()
	var changes []memproxy.StateChange
	for i := range ret.items {
		it := &ret.items[i]
		write := known.of(memproxy.TargetDecision, made[i])
		if made[i] == "" || !write.Rated() {
			continue
		}
		st, old, recorded := write.Status, &it.rec.Status, it.rec.Rated()
		person := st.Reviewed != ""
		if st.State == memproxy.StateUntrusted || (person || st.State == memproxy.StatePending) && !firstSeen(ret, &st, old, recorded) {
			continue
		}
		st.MemoryKey = memproxy.MemoryKey{Backend: ret.op.Backend, Kind: kindOf(it.Memory), ID: it.ID}
		if recorded {
			st.Contested, st.Pinned, st.Expires = old.Contested, old.Pinned, old.Expires
			if old.State == memproxy.StateQuarantined {
				st.State = old.State
			}
		}
		if person {
			st.Text, st.Reviewed = memproxy.TextSHA256(it.Text), memproxy.TextSHA256(it.Text)
		}
		known.rate(st)
		it.rec.Status = st
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

// firstSeen reports whether a memory takes the status of its write: the write
// made it, or it has no status of its own yet. Of an approval it is, in
// addition, not too late.
func firstSeen(ret *answer, st, old *memproxy.Status, recorded bool) bool {
	if recorded && old.State != memproxy.StateUntrusted && old.State != memproxy.StateExpired {
		return false
	}
	return st.Reviewed == "" || ret.begun.Sub(st.Changed) < approvalBinds
}

// origins are the decisions by which an answer's memories came to be, by place,
// as far as their stamps tell, or on a bare route the ledger and what was
// fetched; "" where that is not known.
func origins(ret *answer, bare bool) []string {
	made := make([]string, len(ret.items))
	for i := range ret.items {
		it := &ret.items[i]
		if made[i] = stamped(ret, it.Stamp); made[i] != "" || !bare || it.ID == "" {
			continue
		}
		made[i] = cmp.Or(stamped(ret, ret.op.Current[it.ID].Stamp), it.rec.Owner.Decision)
	}
	return made
}

// stamped is the decision that a stamp names, if it is ours.
func stamped(ret *answer, s *memproxy.Stamp) string {
	if s == nil || !ret.signed(s) {
		return ""
	}
	return s.ID
}

// recallStates remembers the state of targets that were found in the backend, and
// that nothing is known of, by the writes that they came of: a change may take
// the stamp away that tells it.
func recallStates(ctx context.Context, r *run) {
	if _, carries := r.call.Backend.Adapter.(Carrier); !carries || r.dry() {
		return
	}
	known := r.lookups()
	ret := &answer{Admission: r.Admission, g: r.g, looked: known, reading: &memproxy.Reading{}}
	for id, m := range r.op.Current {
		if _, known := r.owners[id]; !known && m.ID != "" && !m.Missing && stamped(ret, m.Stamp) != "" {
			ret.reading.Memories = append(ret.reading.Memories, m)
		}
	}
	if len(ret.reading.Memories) == 0 {
		return
	}
	ret.items = itemsOf(ret.reading)
	made := origins(ret, false)
	keys := known.keys(memproxy.TargetDecision, made...)
	for i := range ret.items {
		keys = append(keys, known.key(memproxy.TargetMemory, ret.items[i].ID))
	}
	if err := known.need(ctx, keys...); err != nil {
		return
	}
	for i := range ret.items {
		it := &ret.items[i]
		if it.rec = known.of(memproxy.TargetMemory, it.ID); it.rec.Rated() && it.rec.Status.Decision == made[i] {
			made[i] = "" // it may have been reviewed since
		}
	}
	settleAside(ctx, ret, made)
}
