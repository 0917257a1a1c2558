package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

// RoleReviewer is the role of those who see what waits for review.
const RoleReviewer = "memproxy-reviewer"

// states applies the states of memories to an answer. If the ledger cannot be
// asked, every memory counts as untrusted, as the table of failures has it.
func (ret *returning) states(ctx context.Context) (refused bool, err error) {
	known := ret.lookups()
	_ = known.memories(ctx, ret.reading.Memories)
	withheld := 0
	for _, hide := range ret.unsaid(ctx) {
		for _, i := range hide.places {
			m := &ret.reading.Memories[i]
			if m.Drop || ret.ownWords(m) {
				continue
			}
			if ret.leave(m, StatusNotFound, memproxy.StateWithheld, hide.why) {
				return true, nil
			}
			withheld++
		}
	}
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		rec := known.of(kindOf(m), m.ID)
		st := rec.Status
		if !rec.Rated() || m.Drop || m.Missing || ret.ownWords(m) {
			continue
		}
		if st.Contested {
			ret.Contested = append(ret.Contested, m.ID)
		}
		switch ret.display(&rec, m) {
		case withhold:
			if ret.receipt(m, st) {
				return true, nil
			}
			if ret.leave(m, StatusNotFound, memproxy.StateWithheld, "the memory is "+string(st.State)+" and withheld"+opens(st.State)) {
				return true, nil
			}
			withheld++
		case sanitise:
			if ret.flagged == nil {
				ret.flagged = map[*memproxy.Memory]memproxy.Status{}
			}
			ret.flagged[m] = st // what of it is shown depends on what it says now
		}
	}
	if withheld > 0 {
		ret.filtered += withheld
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.StateWithheld, Detail: "memories were left out of the answer for their state"})
	}
	return false, nil
}

// unsaid are the places of memories whose status nobody can tell, and why they
// are then withheld. What an addition made has just come to be.
func (ret *returning) unsaid(ctx context.Context) []unsaid {
	if ret.answers && ret.op.Kind == memproxy.Learn {
		return nil
	}
	return []unsaid{
		{ret.byDecision(ctx), "nobody can say by what write the memory came, and it is withheld"},
		{ret.unknown(), "nobody can say how the memory stands, and it is withheld"},
	}
}

type unsaid struct {
	places []int
	why    string
}

// unknown are the places of memories of which nothing is recorded, or the
// ledger could not be asked, where what is untrusted is withheld: they are
// untrusted. Those that were put there around the proxy are among them.
func (ret *returning) unknown() (places []int) {
	if !ret.rules.WithholdUntrusted {
		return nil
	}
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		rec := ret.lookups().of(kindOf(m), m.ID)
		if !rec.Rated() && m.ID != "" && (m.Text != "" || len(m.Also) > 0) && !m.Drop && m.Layer != memproxy.Episodic {
			places = append(places, i)
		}
	}
	return places
}

// What is done with a memory in an answer.
type display uint8

const (
	show display = iota
	sanitise
	withhold
)

// display says how memories of a state are shown to those who review none
// (DOL-5). What has no state is untrusted.
func (r *Rules) display(state memproxy.MemoryState) display {
	switch state {
	case memproxy.StateQuarantined, memproxy.StatePending, memproxy.StateExpired, memproxy.StateSuperseded:
		return withhold
	case memproxy.StateFlagged:
		return sanitise
	case memproxy.StateUntrusted, "":
		if r.WithholdUntrusted {
			return withhold
		}
	}
	return show
}

// opens says what shows a memory that is withheld for its state.
func opens(state memproxy.MemoryState) string {
	if state == memproxy.StatePending {
		return " from others than its author until a reviewer promotes it, or nobody has corrected it for as long as memories.quiet says"
	}
	return ""
}

// authored reports whether a memory is the principal's own: of the ledger's
// knowledge, for nobody's signature is asked here.
func (ret *returning) authored(rec *memproxy.Record) bool {
	return rec.Owned() && madeBy(&ret.Principal, &rec.Owner)
}

// display says how a memory is shown to the principal.
func (ret *returning) display(rec *memproxy.Record, m *memproxy.Memory) display {
	st := &rec.Status
	d := ret.rules.display(st.State)
	switch {
	case st.State == memproxy.StatePending && (slices.Contains(ret.Principal.Roles, RoleReviewer) || ret.authored(rec)):
		return show
	case d == show && ret.restless(rec, m):
		return withhold
	case d == sanitise && (m.TextAt == "" || m.Text == "" || len(m.Also) > 0):
		return withhold // it cannot be shown in part
	}
	return d
}

// restless reports whether what is untrusted is withheld and a memory, though
// validated, says something else by now than was looked at: what it says has
// come in around the proxy, or is on its way into the ledger.
func (ret *returning) restless(rec *memproxy.Record, m *memproxy.Memory) bool {
	st := &rec.Status
	if !ret.rules.WithholdUntrusted || ret.rules.Changed == ChangedIgnore || st.State != memproxy.StateValidated || m.Text == "" || m.TextAt == "" {
		return false
	}
	validated := st.Text
	if validated == "" {
		validated = rec.Owner.SHA256
	}
	return validated != "" && validated != textHash(m.Text)
}
