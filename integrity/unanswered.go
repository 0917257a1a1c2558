package integrity

import (
	"context"
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// maxSearched is how many of the newest records are searched for changes without an
// outcome. A killed process has those that were in progress among its last records.
const maxSearched = 4096

// UnansweredChanges returns the admitted changes and deletions with a record before an
// index of the log, that is those of earlier processes, to which no backend is recorded
// to have answered: the answer was lost or a server error, or the process was killed
// before it recorded the answer. Names are in their recorded form.
func UnansweredChanges(ctx context.Context, c *Checker, before uint64) ([]memproxy.Event, error) {
	lost, order := map[string]memproxy.Event{}, []string{}
	err := query.Query(ctx, c.AuditDir, query.Filter{Last: maxSearched}, func(r *verify.Record) error {
		switch op := r.Operation; {
		case r.Index >= before:
		case r.Type == string(memproxy.EventOutcome):
			if r.Outcome != nil && r.Outcome.Status > 0 && r.Outcome.Status < 500 && !slices.ContainsFunc(r.Reasons, keptInMemory) {
				delete(lost, r.Decision)
			}
		case r.Type != string(memproxy.EventDecision), op == nil, r.Principal == nil,
			r.Verdict != memproxy.Allow.String() && r.Verdict != memproxy.Amend.String():
		case op.Kind == string(memproxy.Forget), op.Kind == string(memproxy.Correct) && len(op.Targets) > 0:
			order = append(order, r.Decision)
			lost[r.Decision] = memproxy.Event{
				Decision: r.Decision, Kind: memproxy.Kind(op.Kind), Backend: op.Backend, Scope: op.Scope, Targets: op.Targets,
				Principal: memproxy.Principal{ID: r.Principal.ID, Tenant: r.Principal.Tenant, Trust: memproxy.Trust(r.Principal.Trust)},
			}
		}
		return nil
	})
	var out []memproxy.Event
	for _, id := range order {
		if ev, yes := lost[id]; yes {
			out = append(out, ev)
			delete(lost, id)
		}
	}
	return out, err
}

// keptInMemory reports the outcome of a change that was in the ledger's memory only, and may be
// lost.
func keptInMemory(why memproxy.Reason) bool { return why.Code == memproxy.LedgerUnavailable }

// Deletion returns the ledger's entry for a memory that an unanswered deletion removed.
func Deletion(ev *memproxy.Event, row *memproxy.Ownership) memproxy.Entry {
	after := *row
	after.Deleted = true
	return memproxy.Entry{ExpectedOwners: []memproxy.Ownership{*row}, Owners: []memproxy.Ownership{after}, Versions: []memproxy.Version{{
		MemoryKey: row.Key(), Tenant: row.Scope.Tenant, Op: memproxy.OpDelete,
		Actor: ev.Principal.ID, Trust: ev.Principal.Trust, Attestation: memproxy.AttestationUnknown, Decision: ev.Decision, Before: row.SHA256,
	}}}
}

// recordDeletion reports whether an unanswered deletion names a missing memory, and records
// the deletion. It covers objects that the backend returns in lists only, such as
// Letta's passages, about which the outcome job cannot ask.
func (w *storeSweep) recordDeletion(ctx context.Context, row *memproxy.Ownership) (bool, error) {
	lost, err := w.lost()
	if err != nil {
		return false, err
	}
	for i := range lost {
		ev := &lost[i]
		if ev.Kind != memproxy.Forget || ev.Backend != row.Backend || !slices.Contains(ev.Targets, row.ID) || memproxy.Inert(ev.Principal.Tenant) != memproxy.Inert(row.Scope.Tenant) {
			continue
		}
		err := w.c.Ledger.Commit(ctx, Deletion(ev, row))
		if err == nil {
			w.c.Log.Info("the outcome of an unanswered deletion was recorded", "decision", ev.Decision, "memory", row.ID)
		} else if errors.Is(err, memproxy.ErrStale) {
			err = nil // another change of the memory is recorded
		}
		return true, err
	}
	return false, nil
}
