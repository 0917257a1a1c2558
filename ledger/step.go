package ledger

import "github.com/memproxy/memproxy"

// Step is one step in the history of a memory.
type Step struct {
	memproxy.VersionChange
	Backend, Tenant, Actor, Decision string
	Trust                            memproxy.Trust
}

// step notes what was done to a history. What was found when a backend was
// taken over is not: a record of the whole tells of it.
func (t *transaction) step(r *record, op memproxy.VersionOp, before, after int64) {
	if r.Op == memproxy.OpSeal && r.Decision == "" {
		return
	}
	s := Step{
		VersionChange: memproxy.VersionChange{Memory: r.ID, Op: op, Field: r.Field, Before: before, After: after, BeforeSHA256: r.Before, SHA256: r.SHA256},
		Backend:       r.Backend, Tenant: r.Tenant, Actor: r.Actor, Decision: r.Decision, Trust: r.Trust,
	}
	if r.Kind == memproxy.TargetObject {
		s.Kind = r.Kind
	}
	t.steps = append(t.steps, s)
}
