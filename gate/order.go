package gate

import (
	"context"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// holdTime is how long a change can have its memories to itself. It is longer than
// a backend may take, and releases them if a face never returns a request.
const holdTime = 5 * time.Minute

// unordered: the call makes no change that could conflict with another request's.
func unordered(r *run) bool {
	return r.op == nil || r.dry() || r.call.Passed || r.op.Kind != memproxy.Learn && r.op.Kind != memproxy.Correct && r.op.Kind != memproxy.Forget
}

// inTurn waits until no other change of the targets is under way. Additions to an
// owner and bulk deletions of it also wait for one another; additions do not wait
// for other additions.
func inTurn(ctx context.Context, r *run) error {
	op := r.op
	var keys []string
	for _, id := range op.Targets {
		keys = append(keys, orderKey(r, op.TargetKind, id))
	}
	if op.Kind == memproxy.Learn || op.Sweeps {
		for _, dim := range [...]memproxy.Dimension{memproxy.DimUser, memproxy.DimAgent, memproxy.DimApp, memproxy.DimRun} {
			if name := op.Scope.In(dim); name != "" {
				keys = append(keys, orderKey(r, memproxy.TargetEntity, memproxy.OwnerID(dim, name)))
			}
		}
	}
	enter(ctx, r, r.g.opt.FetchTimeout, op.Kind != memproxy.Learn, keys)
	return nil
}

// inTurnByID is inTurn for targets that the request names differently from the
// ledger, such as a block by its label. A request that finds one of them in use is
// refused and has to be retried, because what it looked up may have changed.
func inTurnByID(ctx context.Context, r *run) {
	if unordered(r) {
		return
	}
	var keys []string
	for name, m := range r.op.Current {
		if m.ID != "" && m.ID != name {
			keys = append(keys, orderKey(r, r.op.TargetKind, m.ID))
		}
	}
	enter(ctx, r, 0, r.op.Kind != memproxy.Learn, keys)
}

func orderKey(r *run, kind memproxy.TargetKind, id string) string {
	return r.call.Backend.Name + "\x00" + string(kind) + "\x00" + id
}

func enter(ctx context.Context, r *run, patience time.Duration, alone bool, keys []string) {
	if len(keys) == 0 {
		return
	}
	leave, ok := r.g.order.Enter(ctx, patience, alone, keys...)
	if !ok {
		r.verdict.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.LimitInFlight, Detail: "other changes of the same memory are under way; try again"})
		return
	}
	end := time.AfterFunc(holdTime, leave)
	before := r.leave
	r.leave = func() {
		end.Stop()
		leave()
		if before != nil {
			before()
		}
	}
}

// left ends the turn of a change whose outcome is known, or that is refused.
func left(a *Admission) {
	if a.leave != nil {
		a.leave()
	}
}

// maxStale is how often an entry is reconciled with concurrent changes of other
// processes.
const maxStale = 3

// ownersSeen returns the owners of the targets as the change found them.
func ownersSeen(ret *effects) (all []memproxy.Ownership) {
	if ret.op.Kind != memproxy.Correct && ret.op.Kind != memproxy.Forget {
		return nil
	}
	for _, target := range ret.op.Targets {
		if row, known := ret.owners[target]; known {
			all = append(all, row)
		}
	}
	return all
}

// reconcile reduces an entry that conflicts with those of other processes to the
// memories that are in the backend as this change made them. For the others the
// ledger has newer rows, or will have them. The rows are looked up before the
// backend is asked: if one is replaced after that, the entry is stale again.
func reconcile(ctx context.Context, ret *effects, e memproxy.Entry) memproxy.Entry {
	targets := map[memproxy.MemoryKey]string{}
	var keys []memproxy.MemoryKey
	for _, target := range ret.op.Targets {
		if row, known := ret.owners[target]; known {
			k := memproxy.MemoryKey{Backend: row.Backend, Kind: row.Kind, ID: row.ID}
			targets[k], keys = target, append(keys, k)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ret.g.opt.RecordTimeout)
	defer cancel()
	loc, asks := ret.call.Backend.Adapter.(Locator)
	records, err := ret.g.opt.Ledger.Lookup(ctx, keys...)
	var there map[string]memproxy.Memory
	if err == nil && asks && ret.call.Backend.Fetch != nil {
		there, err = located(ctx, ret.g, ret.call, loc, ret.op.Targets)
	}
	if err != nil {
		ret.g.opt.Log.ErrorContext(ctx, "which change was the last cannot be looked up", "decision", ret.Decision.ID, "error", err)
	}
	texts := map[string]string{}
	for i := range ret.op.Items {
		if it := &ret.op.Items[i]; it.Kind == memproxy.ItemContent && it.Text != "" && !it.Moved {
			texts[it.Target] = it.Text
		}
	}
	e.Seen = nil
	foreign := map[memproxy.MemoryKey]bool{}
	for k, target := range targets {
		m, asked := there[target]
		text, written := texts[target]
		if !written && len(ret.op.Targets) == 1 {
			text, written = texts[""]
		}
		gone, now := ret.op.Kind == memproxy.Forget, records[k]
		if foreign[k] = !asked || m.Missing != gone || !gone && written && m.Text != text; !foreign[k] && now.Owned() {
			e.Seen = append(e.Seen, now.Owner)
		}
	}
	version := func(v memproxy.Version) bool { return foreign[v.MemoryKey] }
	e.Found, e.Versions = slices.DeleteFunc(e.Found, version), slices.DeleteFunc(e.Versions, version)
	e.States = slices.DeleteFunc(e.States, func(c memproxy.StateChange) bool { return foreign[c.MemoryKey] })
	e.Renewed = slices.DeleteFunc(e.Renewed, func(c memproxy.Renewal) bool { return foreign[c.MemoryKey] })
	e.Owners = slices.DeleteFunc(e.Owners, func(o memproxy.Ownership) bool {
		return foreign[memproxy.MemoryKey{Backend: o.Backend, Kind: o.Kind, ID: o.ID}]
	})
	return e
}
