package gate

import (
	"context"

	"github.com/memproxy/memproxy"
)

// Ungated says what becomes of the runs of a backend that cannot be gated call
// by call.
type Ungated string

// What becomes of them.
const (
	// UngatedByProfile: refused in production, let through and recorded in
	// development.
	UngatedByProfile Ungated = ""
	// UngatedDeny: refused.
	UngatedDeny Ungated = "deny"
	// UngatedCompensate: let through; what they wrote is ruled on afterwards,
	// and undone where it is not admitted.
	UngatedCompensate Ungated = "compensate"
)

// A Compensator is a Turner that can say afterwards what a run changed.
type Compensator interface {
	Turner
	// Watch returns what is to be looked at over an admitted run that cannot
	// be gated. One of which nobody can say what it changes is
	// memproxy.ErrUngated.
	Watch(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Watch, error)

	// Rewatch takes up a watch by its picture.
	Rewatch(picture []byte) (memproxy.Watch, error)
}

// A Recoverer is a Turner that can decline what waits in a pause.
type Recoverer interface {
	Turner
	// Recover returns the turn that answers the pause in which the turn of a key
	// may have ended, and where its requests are sent. Nothing waits in it once it is
	// prepared when there is no pause, or it is somebody else's to answer.
	Recover(key string) (memproxy.Request, memproxy.Turn, error)
}

// Watched reports whether the run is to be let through and compensated.
func (a *Admission) Watched() bool { return a.watched }

// Watching notes that a run is let through because what it writes will be
// ruled on when it is over.
func (g Agents) Watching(ctx context.Context, a *Admission) {
	g.letThrough(ctx, a, "the run cannot be made to pause; what it writes is ruled on when it is over")
}

// Blind rules on a run of which nobody can say what it changes: it is one that
// cannot be gated, and its profile decides.
func (g Agents) Blind(ctx context.Context, a *Admission) (memproxy.Reply, bool) {
	a.watched = false
	return g.ungated(ctx, a, UngatedByProfile)
}

// Assume returns an admission in the name of somebody for what no request of
// this process asked for: a run that an earlier process let through, a pause
// that nobody answered. The current rules hold. Nothing is ruled on by this
// alone, and nothing recorded.
func (g Agents) Assume(c *Call, p memproxy.Principal, decision string) *Admission {
	r := g.begin(client, c)
	r.Principal, r.watched = p, true
	if decision != "" {
		r.Decision.ID = decision
	}
	r.event = r.decisionEvent(context.Background())
	return r.Admission
}

// Vouched reports whether a change was ruled on when it was made: it is a write
// of somebody's through memproxy, in the middle of the run, and bears its stamp.
// What is new and can bear none is known to the ledger, with the same text:
// archives are shared, and what another agent put there is not the run's.
func (g Agents) Vouched(ctx context.Context, a *Admission, c memproxy.Change) bool {
	if c.Stamp == nil && len(c.Memories) == 1 && c.Memories[0].Event == "ADD" && c.After != "" {
		return g.admitted(ctx, a, c.Memories[0].ID, c.After)
	}
	if c.Stamp == nil || c.After == "" || c.Stamp.SHA256 != c.After {
		return false
	}
	return signedFor(g.opt.Signer, a.Principal.Tenant, *c.Stamp)
}

// admitted reports whether a memory was admitted with a text. Where the ledger does
// not answer, nobody vouches.
func (g Agents) admitted(ctx context.Context, a *Admission, id, sha string) bool {
	known := newLookups(g.Gate, a)
	if err := known.need(ctx, known.key(memproxy.TargetMemory, id)); err != nil {
		return false
	}
	row := known.owner(memproxy.TargetMemory, id)
	return row != nil && !row.Deleted && row.Decision != "" && row.SHA256 == sha
}

// Undone notes what came of taking back a change that was not admitted. The
// hashes are of the text that was removed and of the one that was restored. A
// nil error is success.
func (g Agents) Undone(ctx context.Context, a *Admission, c memproxy.Change, err error) {
	ret := &answer{Admission: a, g: g.Gate, status: statusOK}
	if a.op != nil {
		ret.shown = a.op.Targets
	}
	detail := "undone: " + named(c.After) + " is " + named(c.Before) + " again"
	if err != nil {
		ret.status = StatusBadGateway
		detail = "could not be undone: " + named(c.After) + " stands where " + named(c.Before) + " stood"
		g.opt.Log.ErrorContext(ctx, "a write that was not let in could not be undone", "decision", a.Decision.ID, "targets", ret.shown, "error", err)
	}
	ret.reasons = []memproxy.Reason{{Code: memproxy.RunUngated, Detail: detail}}
	g.outcome(ctx, ret)
}

// statusOK is what an undoing that went well is recorded with.
const statusOK = 200

func named(hash string) string {
	if hash == "" {
		return "nothing"
	}
	return "sha256 " + hash
}

// Unsettled notes that what a run changed could not be ruled on for now, or,
// when given up, ever.
func (g Agents) Unsettled(ctx context.Context, a *Admission, givenUp bool, err error) {
	ret := &answer{Admission: a, g: g.Gate}
	detail := "what the run wrote has not been ruled on yet"
	if givenUp {
		detail = "what the run wrote was never ruled on"
	}
	g.opt.Log.ErrorContext(ctx, detail, "decision", a.Decision.ID, "error", err)
	ret.reasons = []memproxy.Reason{{Code: memproxy.RunUngated, Detail: detail}}
	g.outcome(ctx, ret)
}

// ungated rules on a run that cannot be gated. It reports whether the reply is
// to be sent.
func (g Agents) ungated(ctx context.Context, a *Admission, mode Ungated) (memproxy.Reply, bool) {
	if !a.enforced() || mode != UngatedDeny && a.rules.Profile == Development {
		g.letThrough(ctx, a, memproxy.ErrUngated.Error())
		return memproxy.Reply{}, false
	}
	ret := &answer{Admission: a, g: g.Gate}
	ret.refuse(StatusForbidden, memproxy.RunUngated, memproxy.ErrUngated.Error()+"; agents of type letta_v1_agent can be ruled on, and backends[].ungated: compensate allows others")
	g.outcome(ctx, ret)
	return ret.reply, true
}

// letThrough notes that a run goes on although its calls are not ruled on.
func (g Agents) letThrough(ctx context.Context, a *Admission, why string) {
	ev := following(&a.event, memproxy.EventOutcome, g.opt.Clock())
	ev.Reasons = []memproxy.Reason{{Code: memproxy.RunUngated, Detail: why}}
	g.notes.add(ctx, ev)
}
