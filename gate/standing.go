package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

// RoleReviewer is the role of those who see what waits for review.
const RoleReviewer = "memproxy-reviewer"

// stand applies the states of memories to an answer. It reports whether the
// whole answer was refused. A ledger that cannot be asked knows of no state:
// everything is then untrusted, as the table of failures has it.
func (ret *returning) stand(ctx context.Context) (refused bool) {
	ids := map[memproxy.TargetKind][]string{}
	for i := range ret.reading.Memories {
		if m := &ret.reading.Memories[i]; m.ID != "" && !m.Drop && !m.Missing {
			ids[kindOf(m)] = append(ids[kindOf(m)], m.ID)
		}
	}
	known := map[memproxy.TargetKind]map[string]memproxy.Status{}
	for kind, list := range ids {
		if got := ret.standing(ctx, kind, list); got.err == nil {
			known[kind] = got.by
		}
	}
	ret.stands = known
	withheld := 0
	for _, hide := range ret.unsaid(ctx, known) {
		for _, i := range hide.places {
			m := &ret.reading.Memories[i]
			if m.Drop || ret.ownWords(m) {
				continue
			}
			if ret.leave(m, StatusNotFound, memproxy.StateWithheld, hide.why) {
				return true
			}
			withheld++
		}
	}
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		st, ok := known[kindOf(m)][m.ID]
		if !ok || m.Drop || ret.ownWords(m) {
			continue
		}
		if st.Contested {
			ret.Contested = append(ret.Contested, m.ID)
		}
		switch ret.display(&st, m) {
		case withhold:
			if ret.receipt(ctx, m, st) {
				return true
			}
			if ret.leave(m, StatusNotFound, memproxy.StateWithheld, "the memory is "+string(st.State)+" and withheld"+opens(st.State)) {
				return true
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
	return false
}

// unsaid are the places of memories of which nobody can say how they stand, and
// why they are then withheld. What an addition made has just come to be.
func (ret *returning) unsaid(ctx context.Context, known standings) []unsaid {
	if ret.answers && ret.op.Kind == memproxy.Learn {
		return nil
	}
	return []unsaid{
		{ret.byDecision(ctx, known), "nobody can say by what write the memory came, and it is withheld"},
		{ret.unknown(known), "nobody can say how the memory stands, and it is withheld"},
	}
}

type unsaid struct {
	places []int
	why    string
}

// stood is the answer about how memories of a kind stand, by id.
type stood struct {
	by  map[string]memproxy.Status
	err error
}

// manyAhead is how many memories make it worth while to ask about two things
// side by side.
const manyAhead = 8

// lookAhead asks how the memories stand while their owners are looked up: of a
// page that nobody asked for lately, each takes about as long.
func (ret *returning) lookAhead(ctx context.Context, ids map[memproxy.TargetKind][]string) {
	ret.ahead, ret.stood = nil, nil
	for kind, list := range ids {
		if len(list) < manyAhead {
			continue
		}
		if ret.ahead == nil {
			ret.ahead = map[memproxy.TargetKind]<-chan stood{}
		}
		answer := make(chan stood, 1)
		ret.ahead[kind] = answer
		ret.g.asking.Go(func() {
			by, err := ret.g.opt.Ledger.Standings(ctx, ret.op.Backend, kind, list)
			answer <- stood{by, err}
		})
	}
}

// standing is how memories of a kind stand, of which none is new since
// lookAhead. Each kind is asked about once: what speaks against a memory and
// whether it is shown are then read off the same answer.
func (ret *returning) standing(ctx context.Context, kind memproxy.TargetKind, ids []string) stood {
	if got, ok := ret.stood[kind]; ok {
		return got
	}
	var got stood
	if answer := ret.ahead[kind]; answer != nil {
		got = <-answer
	} else {
		got.by, got.err = ret.g.opt.Ledger.Standings(ctx, ret.op.Backend, kind, ids)
	}
	if got.err != nil {
		got.by = nil
	}
	if ret.stood == nil {
		ret.stood = map[memproxy.TargetKind]stood{}
	}
	ret.stood[kind] = got
	return got
}

// unknown are the places of memories of which nothing is recorded, or the
// ledger could not be asked, where what is untrusted is withheld: they are
// untrusted. Those that were put there around the proxy are among them.
func (ret *returning) unknown(known standings) (places []int) {
	if !ret.rules.WithholdUntrusted {
		return nil
	}
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		_, recorded := known[kindOf(m)][m.ID]
		if !recorded && m.ID != "" && (m.Text != "" || len(m.Also) > 0) && !m.Drop && m.Layer != memproxy.Episodic {
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
func (ret *returning) authored(st *memproxy.Status) bool {
	row, known := ret.known[st.Kind][st.ID]
	return known && row.Actor != "" && row.Actor == ret.Principal.ID && row.Scope.Tenant == ret.Principal.Tenant
}

// display says how a memory is shown to the principal.
func (ret *returning) display(st *memproxy.Status, m *memproxy.Memory) display {
	d := ret.rules.display(st.State)
	switch {
	case st.State == memproxy.StatePending && (slices.Contains(ret.Principal.Roles, RoleReviewer) || ret.authored(st)):
		return show
	case d == show && ret.restless(st, m):
		return withhold
	case d == sanitise && (m.TextAt == "" || m.Text == "" || len(m.Also) > 0):
		return withhold // it cannot be shown in part
	}
	return d
}

// restless reports whether what is untrusted is withheld and a memory, though
// validated, says something else by now than was looked at: what it says has
// come in around the proxy, or is on its way into the ledger.
func (ret *returning) restless(st *memproxy.Status, m *memproxy.Memory) bool {
	if !ret.rules.WithholdUntrusted || ret.rules.Changed == ChangedIgnore || st.State != memproxy.StateValidated || m.Text == "" || m.TextAt == "" {
		return false
	}
	validated := st.Text
	if validated == "" {
		validated = ret.known[st.Kind][st.ID].SHA256
	}
	return validated != "" && validated != textHash(m.Text)
}
