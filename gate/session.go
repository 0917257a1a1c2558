package gate

import (
	"context"

	"github.com/memproxy/memproxy"
)

// unlocked: nothing is written in a session.
func unlocked(r *run) bool {
	if r.op == nil || !r.op.Kind.Writes() || r.screening().Session == "" {
		return true
	}
	_, ok := r.g.opt.Ledger.(Disciplinarian)
	return !ok
}

// locked refuses the writes of a session that was rejected too often.
func locked(ctx context.Context, r *run) error {
	is, err := r.g.opt.Ledger.(Disciplinarian).SessionLocked(ctx, r.Principal.Tenant, r.screening().Session)
	if err != nil {
		return err
	}
	if is {
		r.refuse(StatusForbidden, memproxy.Reason{Code: memproxy.SessionLocked, Detail: "this session's writes are locked after too many rejections; a reviewer unlocks it"})
	}
	return nil
}

// discipline counts what was not let through in its session: what policies,
// screening and identity refused, and not what was unreadable, too much or
// could not be ruled on.
func (g *Gate) discipline(ctx context.Context, r *run) {
	d := &r.Decision
	keeper, ok := g.opt.Ledger.(Disciplinarian)
	if !ok || r.op == nil || !r.op.Kind.Writes() || !d.Verdict.Stops() || d.Status != StatusForbidden || !r.enforced() {
		return
	}
	s := r.screening()
	if s.Session == "" || has(d.Reasons, memproxy.SessionLocked) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	_, locked, err := keeper.NoteSession(ctx, memproxy.SessionEvent{
		Tenant: r.Principal.Tenant, Session: s.Session, Principal: r.Principal.ID, Decision: d.ID, Verdict: d.Verdict,
		Route: r.call.Route.ID, Reasons: d.Reasons, Time: r.begun,
	})
	switch {
	case err != nil:
		g.opt.Meter.LedgerFailed(ctx)
		g.opt.Log.ErrorContext(ctx, "a rejection was not counted in its session", "decision", d.ID, "error", err)
	case locked:
		g.opt.Log.WarnContext(ctx, "a session's writes are locked after too many rejections", "session", s.Session, "principal", r.Principal.ID)
	}
}

func has(reasons []memproxy.Reason, code memproxy.ReasonCode) bool {
	for i := range reasons {
		if reasons[i].Code == code {
			return true
		}
	}
	return false
}
