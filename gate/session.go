package gate

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// callerWindow is the time in which a caller's rejections are counted over all
// of its sessions.
const callerWindow = time.Hour

// session is the session whose writes are counted: the one that the caller
// names, the run of the payload, or where agents run inside the backend the
// agent; or "".
func (r *run) session() string {
	names := [3]string{r.call.Session}
	if r.op != nil {
		names[1] = r.op.Scope.Run
		if _, runs := r.call.Backend.Adapter.(Turner); runs {
			names[2] = r.op.Scope.Agent
		}
	}
	for _, name := range names {
		if name != "" && !strings.HasPrefix(name, memproxy.CallerPrefix) {
			return name
		}
	}
	return ""
}

// unlocked: nothing is written.
func unlocked(r *run) bool {
	if r.op == nil || !r.op.Kind.Writes() {
		return true
	}
	_, ok := r.g.opt.Ledger.(Disciplinarian)
	return !ok
}

// locked refuses the writes of a session, or of a caller, that was rejected
// too often.
func locked(ctx context.Context, r *run) error {
	ids := []string{memproxy.CallerSession(r.Principal.ID)}
	if s := r.session(); s != "" {
		ids = append(ids, s)
	}
	which, err := r.g.opt.Ledger.(Disciplinarian).SessionLocked(ctx, r.Principal.Tenant, ids...)
	if err != nil || which == "" {
		return err
	}
	what := "this session's writes are locked after too many rejections"
	if which == ids[0] {
		what = "this caller's writes are locked after too many rejections, in whatever sessions"
	}
	r.refuse(StatusForbidden, memproxy.Reason{Code: memproxy.SessionLocked, Detail: what + "; a reviewer unlocks " + which})
	return nil
}

// discipline counts what was not let through: what policies, screening and
// identity refused, and not what was unreadable, too much or could not be
// ruled on.
//
// It counts in the session, and against the caller over an hour: who names
// another session at every try, or none, is locked as well. A lock stops those
// who try until something passes. Nothing passes a rule of the operator's own,
// whatever is tried: it counts in sessions only, so that an edit that refuses
// everybody for a while does not lock everybody for good.
func (g *Gate) discipline(ctx context.Context, r *run) {
	d := &r.Decision
	keeper, ok := g.opt.Ledger.(Disciplinarian)
	if !ok || r.op == nil || !r.op.Kind.Writes() || !d.Verdict.Stops() || d.Status != StatusForbidden || !r.enforced() || has(d.Reasons, memproxy.SessionLocked) {
		return
	}
	ev := memproxy.SessionEvent{
		Tenant: r.Principal.Tenant, Principal: r.Principal.ID, Decision: d.ID, Verdict: d.Verdict,
		Route: r.call.Route.ID, Reasons: d.Reasons, Time: r.begun,
	}
	if ev.Session = r.session(); ev.Session != "" {
		g.strike(ctx, keeper, ev)
	}
	probes := slices.ContainsFunc(d.Reasons, func(why memproxy.Reason) bool {
		// What is lowered or taken out on the way refuses nothing.
		return !strings.HasPrefix(string(why.Code), "policy.") && why.Code != memproxy.TrustClamped && why.Code != memproxy.TrustAttribution && why.Code != memproxy.PayloadReserved
	})
	if g.opt.CallerStrikes > 0 && d.Verdict == memproxy.Deny && probes {
		ev.Session, ev.Strikes, ev.Window = memproxy.CallerSession(r.Principal.ID), g.opt.CallerStrikes, callerWindow
		g.strike(ctx, keeper, ev)
	}
}

func (g *Gate) strike(ctx context.Context, keeper Disciplinarian, ev memproxy.SessionEvent) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	_, locked, err := keeper.NoteSession(ctx, ev)
	switch {
	case err != nil:
		g.opt.Meter.LedgerFailed(ctx)
		g.opt.Log.ErrorContext(ctx, "a rejection was not counted in its session", "decision", ev.Decision, "error", err)
	case locked:
		g.opt.Log.WarnContext(ctx, "writes are locked after too many rejections", "session", ev.Session, "principal", ev.Principal)
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
