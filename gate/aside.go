package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

// A Carrier is a Reader whose backend shows the stamp of a write with what it
// made of it, so that memories can be told by their write before anybody knows
// their ids. Only such writes are set aside (Rules.NeverRefuse).
type Carrier interface {
	Reader
	// Carries reports whether everything that the write makes bears its stamp,
	// and is shown on routes only that Read takes apart.
	Carries(memproxy.Route, *memproxy.Operation) bool

	// Bare reports whether the answers of a route show texts without their
	// stamps: a history, a receipt.
	Bare(memproxy.Route) bool
}

// setAside turns a ruling against what a new memory says into a state of the
// memory (DOL-2): it is written, and the state decides what is shown of it. A
// ruling that has any other reason stands, and so does one about a credential,
// which is a leak wherever it lies.
func (r *run) setAside(ruling *memproxy.Ruling) {
	if !r.rules.NeverRefuse || !r.enforced() || !ruling.Verdict.Stops() || r.verdict.Stops() || r.op.Kind != memproxy.Learn {
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
func (r *run) unfiltered() {
	if r.rules.NeverRefuse && r.op.Kind == memproxy.Recall && r.op.Derived {
		r.refuse(StatusForbidden, memproxy.Reason{
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
	change, ordinary := r.foreseen(memproxy.MemoryKey{Backend: r.op.Backend, Kind: memproxy.TargetDecision, ID: r.Decision.ID})
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
func (a *Admission) foreseen(k memproxy.MemoryKey) (c memproxy.StateChange, ordinary bool) {
	c = memproxy.StateChange{
		MemoryKey: k, Tenant: a.Principal.Tenant, Decision: a.Decision.ID, Attestation: a.attested(a.marks),
		From: []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateExpired},
	}
	switch {
	case a.confirmed:
		c.State, c.Reason, c.Person = memproxy.StateValidated, reasonApproved, true
	case a.aside != "":
		return a.asideOf(k), false
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
func (a *Admission) asideOf(k memproxy.MemoryKey) memproxy.StateChange {
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
func (a *Admission) spansIn(m *memproxy.Memory) []memproxy.Finding {
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
			c := ret.asideOf(memproxy.MemoryKey{Backend: ret.op.Backend, Kind: kindOf(m), ID: m.ID})
			c.Findings, c.Text = ret.spansIn(m), memproxy.TextSHA256(m.Text)
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return ret.g.opt.Ledger.Commit(ctx, memproxy.Entry{States: changes})
}
