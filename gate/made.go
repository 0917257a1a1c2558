package gate

import (
	"context"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// lookedThrough is how many statuses of one state are looked through for
// those that an answer could be made of. Where there are more, it is.
const lookedThrough = 1000

// apart refuses what is made of many memories at once (a summary, an export,
// an agent's context) where it could be made of one that this caller is not
// to see, or not as it is: the answer cannot be taken apart again.
func apart(ctx context.Context, r *run) {
	switch {
	case r.op.Kind != memproxy.Recall || !r.op.Derived:
	case r.call.Wishes.MinTrust > 0:
		r.verdict.refuse(StatusForbidden, memproxy.Reason{
			Code: memproxy.TrustBelow, Detail: "this is made of many memories and cannot be kept to a least confidence",
		})
	case hides(ctx, r.g, r.Admission):
		r.verdict.refuse(StatusForbidden, memproxy.Reason{
			Code: memproxy.StateWithheld, Detail: "this is made of many memories, and some of them are withheld from this caller for their state",
		})
	}
}

// hides reports whether something that the backend makes of the memories that
// the operation names could hold one that the caller is not shown, or not as
// it is. A memory of a user that the operation leaves out is not in it.
func hides(ctx context.Context, g *Gate, a *Admission) bool {
	states := []memproxy.MemoryState{memproxy.StateQuarantined, memproxy.StateFlagged, memproxy.StateExpired, memproxy.StateSuperseded}
	if !slices.Contains(a.Principal.Roles, RoleReviewer) {
		states = append(states, memproxy.StatePending)
	}
	if a.rules.WithholdUntrusted {
		states = append(states, memproxy.StateUntrusted)
	}
	filters := make([]memproxy.StatusFilter, 0, len(states)+1)
	for _, state := range states {
		filters = append(filters, memproxy.StatusFilter{State: state})
	}
	if a.rules.Changed == ChangedWithhold || a.rules.WithholdUntrusted && a.rules.Changed != ChangedIgnore {
		filters = append(filters, memproxy.StatusFilter{Unverified: true})
	}
	for _, f := range filters {
		f.Backend, f.Tenant, f.Limit = a.op.Backend, a.Principal.Tenant, lookedThrough
		list, err := g.opt.Ledger.ListStatuses(ctx, f)
		if err != nil {
			return a.rules.WithholdUntrusted // nothing is known of any memory: all are untrusted
		}
		if len(list) == lookedThrough || concerned(ctx, g, a, f.State, list) {
			return true
		}
	}
	return false
}

// concerned reports whether one of the memories may be among those that the
// operation reads: it was not deleted, and is not known to be another user's,
// nor to wait for review and be the caller's own.
func concerned(ctx context.Context, g *Gate, a *Admission, state memproxy.MemoryState, list []memproxy.Status) bool {
	var keys []memproxy.MemoryKey
	for i := range list {
		// What the backend lacks is in nothing that it makes.
		if k := list[i].Kind; k != memproxy.TargetEvent && list[i].Unverified != memproxy.IntegrityMissing && !came(a, &list[i]) {
			keys = append(keys, list[i].MemoryKey)
		}
	}
	if len(keys) == 0 {
		return false
	}
	records, err := g.opt.Ledger.Lookup(ctx, keys...)
	if err != nil {
		return true
	}
	for _, k := range keys {
		rec := records[k]
		row := &rec.Owner
		if own := rec.Owned() && row.Actor == a.Principal.ID && row.Scope.Tenant == a.Principal.Tenant; own && state == memproxy.StatePending {
			continue
		}
		if !rec.Owned() || !row.Deleted && !leavesOut(a, row.Scope.User) {
			return true
		}
	}
	return false
}

// cameBy is how long what a write makes may take to be known.
const cameBy = 10 * time.Minute

// came reports whether what was foreseen of a write has come to be, and is
// listed itself, or never will.
func came(a *Admission, st *memproxy.Status) bool {
	if st.Kind != memproxy.TargetDecision {
		return false
	}
	return st.State == memproxy.StateUntrusted || st.State == memproxy.StatePending && a.begun.Sub(st.Changed) > cameBy
}

// leavesOut reports whether the operation is narrowed to other users.
func leavesOut(a *Admission, user string) bool {
	if user == "" {
		return false
	}
	for i := range a.op.Claims {
		c := &a.op.Claims[i]
		if c.Dim == memproxy.DimUser && c.Pins && c.Op == memproxy.ClaimIs && len(c.Values) > 0 && !slices.Contains(c.Values, user) {
			return true
		}
	}
	return false
}
