package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// session is the session whose writes are counted, within those of the caller:
// the one that it names, the run of the payload, or where agents run inside
// the backend the agent; or "".
func (r *run) session() string {
	name := r.namedSession()
	if _, runs := r.call.Backend.Adapter.(Turner); name == "" && runs && r.op != nil {
		name = memproxy.Inert(r.op.Scope.Agent)
	}
	return name
}

// namedSession is the session that the caller names, or the run of the
// payload.
func (a *Admission) namedSession() string {
	names := [2]string{a.call.Session.String()}
	if a.op != nil {
		names[1] = memproxy.NameSession(a.op.Scope.Run).String()
	}
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}

// endUser is on whose behalf an operation is, as far as it says: the user that
// the payload names, else the one user whom everything belongs to that it
// names by id.
func (a *Admission) endUser() string {
	if a.op == nil {
		return ""
	}
	user := a.op.Scope.User
	if user != "" {
		return user
	}
	for _, row := range a.owners {
		if u := row.Scope.User; u != "" && user != "" && u != user {
			return ""
		} else if u != "" {
			user = u
		}
	}
	return user
}

// records are the records of rejections that a write on behalf of an end user
// belongs to: the session's if it has a name, the principal's for this user,
// and the principal's as a whole.
func (r *run) records(name, user string) []memproxy.SessionKey {
	who := r.Principal.Account()
	keys := []memproxy.SessionKey{
		{Kind: memproxy.SessionUser, Principal: who, User: user},
		{Kind: memproxy.SessionPrincipal, Principal: who},
	}
	if name != "" {
		keys = append(keys, memproxy.SessionKey{Kind: memproxy.SessionNamed, Principal: r.Principal.ID, User: user, Name: name})
	}
	return keys
}

// unlocked: nothing is written.
func unlocked(r *run) bool { return r.op == nil || !r.op.Kind.Writes() }

// namesUser: the end user is known from the payload, or not even now.
func namesUser(r *run) bool { return unlocked(r) || r.op.Scope.User != "" || r.endUser() == "" }

// locked refuses the writes of a session, of a principal for an end user, or of
// a principal, that were rejected too often.
func locked(ctx context.Context, r *run) error { return r.lockedFor(ctx, r.op.Scope.User) }

// ownUnlocked is own, and then locked once more where the end user is the owner
// of what is named. What a reviewer approved is not asked about.
func ownUnlocked(ctx context.Context, r *run) error {
	if err := own(ctx, r); err != nil || r.verdict.Stops() || namesUser(r) || has(r.notes, memproxy.ReviewApproved) {
		return err
	}
	if err := r.lockedFor(ctx, r.endUser()); err != nil {
		r.g.opt.Log.ErrorContext(ctx, "locks could not be looked up", "decision", r.Decision.ID, "error", err)
		r.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: "memproxy could not finish ruling on this request"})
	}
	return nil
}

func (r *run) lockedFor(ctx context.Context, user string) error {
	var ids []string
	for _, key := range r.records(r.session(), user) {
		ids = append(ids, key.ID())
	}
	lock, err := r.g.opt.Ledger.SessionLocked(ctx, r.Principal.Tenant, ids...)
	if err != nil || lock.ID == "" {
		return err
	}
	whose, scope, setting := "this session's writes", "", "max_rejections"
	switch memproxy.SessionKeyOf(lock.ID).Kind {
	case memproxy.SessionUser:
		whose, scope, setting = "this caller's writes for this end user", ", in whatever sessions", "max_user_rejections"
	case memproxy.SessionPrincipal:
		whose, scope, setting = "this caller's writes", ", in whatever sessions and for whomever", "max_principal_rejections"
	}
	r.refuse(StatusForbidden, memproxy.Reason{Code: memproxy.SessionLocked, Detail: fmt.Sprintf(
		"%s are locked after %d rejections%s, until %s; sessions.%s sets the number, and memproxy sessions unlock ends it earlier: %s",
		whose, lock.Limit, scope, lock.Until.UTC().Format(time.RFC3339), setting, memproxy.InertID(lock.ID))})
	return nil
}

// discipline counts what was not let through: what policies, screening and
// identity refused, and not what was unreadable, too much or could not be
// ruled on.
//
// It counts against the caller, and against nobody else: in its session, for
// the end user whom it names, whose locks leave other users of the same caller
// alone, and in all, which takes the rejections of many users. A lock stops
// those who try until something passes. Nothing passes a policy, whatever is
// tried, and a client that asks for what is closed asks again at each start: such
// a refusal is kept with its session and locks nothing, so that an edit that
// refuses everybody for a while locks nobody; that of a field counts in its session
// alone. Nor does what one kind of evidence
// says of a text (a pattern of governed fields, what looks like a credential): an
// ordinary note that reads so is written again and again.
func (g *Gate) discipline(ctx context.Context, r *run, session, user string) {
	d := &r.Decision
	if r.op == nil || !r.op.Kind.Writes() || !d.Verdict.Stops() || d.Status != StatusForbidden || !r.enforced() || has(d.Reasons, memproxy.SessionLocked) {
		return
	}
	ev := memproxy.SessionEvent{
		Tenant: r.Principal.Tenant, Principal: r.Principal.ID, Decision: d.ID, Verdict: d.Verdict,
		Route: r.call.Route.ID, Reasons: d.Reasons, Time: r.begun,
	}
	ev.Unsure = d.Verdict == memproxy.Deny && unsure(d.Reasons)
	wide := d.Verdict == memproxy.Deny && !ev.Unsure && slices.ContainsFunc(d.Reasons, probes)
	stop := false
	for _, key := range r.records(session, user) {
		if stop && key.Kind == memproxy.SessionPrincipal || !wide && key.Kind != memproxy.SessionNamed {
			continue
		}
		ev.Session = key.ID()
		s := g.count(ctx, r, ev)
		// What comes in beside a lock of one user adds nothing to the whole.
		stop = key.Kind == memproxy.SessionUser && s.Limit > 0 && s.Strikes > s.Limit
	}
}

// aside are the reasons that stand beside what refused a write: what was lowered or
// taken out on the way, which rules found what.
var aside = [...]memproxy.ReasonCode{
	memproxy.TrustClamped, memproxy.TrustAttribution, memproxy.PayloadReserved, memproxy.PayloadUnclaimed,
	memproxy.ScreenFinding, memproxy.ScreenConfigured,
}

// closed reports whether a reason is a policy's about what is asked for, whatever
// the text says: an ordinary client asks for it again and again.
func closed(code memproxy.ReasonCode) bool {
	switch code {
	case memproxy.PayloadUnseen, memproxy.TrustBackdated, memproxy.FieldTrait, memproxy.LayerNamespace, memproxy.LayerInferred:
		return true
	}
	return strings.HasPrefix(string(code), "policy.")
}

// probes reports whether a reason speaks against the caller as a whole. A field
// that may not be written, or not so long, counts in its session alone.
func probes(why memproxy.Reason) bool {
	return !slices.Contains(aside[:], why.Code) && !closed(why.Code) && why.Code != memproxy.FieldForbidden && why.Code != memproxy.FieldSize
}

// unsure reports whether the reasons of a refusal are policies about what is asked
// for, or one kind of evidence about a text, and that one which is often wrong.
func unsure(reasons []memproxy.Reason) bool {
	var only memproxy.ReasonCode
	ruled := false
	for _, why := range reasons {
		switch {
		case slices.Contains(aside[:], why.Code):
		case closed(why.Code):
			ruled = true
		case (why.Code == memproxy.ScreenPattern || why.Code == memproxy.ScreenSecret) && (only == "" || only == why.Code):
			only = why.Code
		default:
			return false
		}
	}
	return ruled || only != ""
}

// disciplineCall counts a tool call of a running agent against the caller that
// runs it and the end user for whom, never against the agent.
func (g *Gate) disciplineCall(ctx context.Context, a, asked *Admission) {
	g.discipline(ctx, &run{Admission: asked, g: g}, a.namedSession(), a.endUser())
}

func (g *Gate) count(ctx context.Context, r *run, ev memproxy.SessionEvent) memproxy.Session {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	s, locked, err := g.opt.Ledger.NoteSession(ctx, ev)
	switch {
	case err != nil:
		g.opt.Log.ErrorContext(ctx, "a rejection was not counted", "decision", ev.Decision, "error", err)
	case locked:
		g.opt.Log.WarnContext(ctx, "writes are locked after too many rejections", "session", memproxy.InertID(ev.Session), "principal", ev.Principal, "until", s.Until)
		g.noteLock(ctx, r.Admission, s)
	}
	return s
}

// noteLock records a lock.
func (g *Gate) noteLock(ctx context.Context, a *Admission, s memproxy.Session) {
	ev := a.event
	ev.Type, ev.Time = memproxy.EventLock, g.opt.Clock()
	ev.Detail = memproxy.InertID(s.ID) + " is locked until " + s.Until.UTC().Format(time.RFC3339)
	ev.Reasons = []memproxy.Reason{{Code: memproxy.SessionLocked, Rule: string(s.Kind), Detail: "too many rejections"}}
	ev.Budget, ev.ContentSHA256, ev.Findings, ev.Facts = nil, "", nil, nil
	if err := g.opt.Recorder.Note(ev); err != nil {
		g.opt.Log.ErrorContext(ctx, "audit note lost", "decision", a.Decision.ID, "error", err)
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
