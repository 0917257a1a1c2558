package integrity

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/tamper"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// lookedBack is how many of the newest records are searched for changes without an
// outcome: those that were under way when a process was killed are among its last.
const lookedBack = 4096

// Lost returns the admitted changes and deletions of earlier processes, those with a
// record before an index of the log, that no backend is recorded to have answered: the
// answer was lost or a server error, or the process was killed before it recorded it.
// Names are as recorded.
func Lost(ctx context.Context, c *Checker, before uint64) ([]memproxy.Event, error) {
	lost, order := map[string]memproxy.Event{}, []string{}
	err := query.Query(ctx, c.AuditDir, query.Filter{Last: lookedBack}, func(r *verify.Record) error {
		switch op := r.Operation; {
		case r.Index >= before:
		case r.Type == string(memproxy.EventOutcome):
			if r.Outcome != nil && r.Outcome.Status > 0 && r.Outcome.Status < 500 {
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
	for _, id := range slices.Compact(order) {
		if ev, yes := lost[id]; yes {
			out = append(out, ev)
			delete(lost, id)
		}
	}
	return out, err
}

// Wrote reports whether a memory is as the decision left it, by its stamp.
func Wrote(c *Checker, decision, tenant string, m *memproxy.Memory) bool {
	return m.Stamp != nil && m.Stamp.ID == decision && tamper.SignedFor(c.Signer, tenant, *m.Stamp)
}
