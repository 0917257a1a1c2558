package gate

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/tamper"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// Agents rules on what agents write in their runs: on the tool calls of a turn, and
// on the changes of a run that could not be paused.
type Agents struct{ *Gate }

// Agents returns the part of the gate that rules on runs of agents.
func (g *Gate) Agents() Agents { return Agents{g} }

// Probe asks the backend which tool an admitted request runs. The error is
// ErrUngated for a tool that cannot be ruled on in advance; any other error is
// breakage.
func (g Agents) Probe(ctx context.Context, a *Admission, p Probe) error {
	if a.call.Backend.Fetch == nil {
		return memproxy.ErrUngated
	}
	reply, err := a.call.Backend.fetchOne(ctx, p.ask)
	if err != nil {
		return err
	}
	err = a.call.Backend.Adapter.(backend.AgentRunner).ReadProbe(a.call.Route, reply)
	if errors.Is(err, memproxy.ErrUngated) && err != memproxy.ErrUngated { // it says more
		a.ungatedWhy = err.Error()
		return err
	}
	return backend.LookupFailure(reply, err)
}

// toolCallEvaluation begins to rule on a tool call of a running agent. The call is attributed
// to the principal of the admission that started the run, and ruled on by the rules that
// this admission pinned.
func (g Agents) toolCallEvaluation(m mode, a *Admission, tc memproxy.ToolCall) *evaluation {
	c := *a.call
	c.Route = memproxy.Route{ID: a.call.Route.ID + "/" + tc.Tool, Kind: memproxy.Run}
	c.Body = tc.Arguments
	if tc.Operation != nil {
		c.Route.Kind = tc.Operation.Kind
		tc.Operation.Backend = c.Backend.Name
	}
	r := g.begin(m, &c)
	r.run, r.tool = a, tc
	r.Principal, r.rules = a.Principal, a.rules
	r.Decision.Policy = a.rules.Version
	return r
}

func ruleOnToolCall(ctx context.Context, r *evaluation) *Admission {
	ctx, span := r.g.opt.Tracer.Start(ctx, signal.SpanRuleOnCall)
	defer span.End()
	r.walk(ctx)
	span.SetAttributes(r.Attributes(nil)...)
	return r.Admission
}

// RuleOnCall rules on a tool call of a running agent, which is charged and recorded like a
// separate request.
func (g Agents) RuleOnCall(ctx context.Context, a *Admission, tc memproxy.ToolCall) *Admission {
	return ruleOnToolCall(ctx, g.toolCallEvaluation(call, a, tc))
}

// Decline denies a call of a running agent without asking the policy, and
// records it as the denial of the admission's principal.
func (g Agents) Decline(ctx context.Context, a *Admission, tc memproxy.ToolCall, why string) *Admission {
	r := g.toolCallEvaluation(decline, a, tc)
	r.op = tc.Operation
	r.verdict.Forbid(memproxy.RunUngated, "", why)
	return ruleOnToolCall(ctx, r)
}

// A PreviewedRefusal is a tool call that is refused whether or not a person approves it.
type PreviewedRefusal struct {
	Decision memproxy.Decision

	r *evaluation
}

// PreviewCall rules on a tool call before a person is asked to approve it, so that
// approval is not requested for a call that would be refused. It returns nil if the
// person is to be asked: the call may be admitted, would wait for review, or cannot
// be ruled on now. Nothing is charged or recorded: RuleOnCall rules on the call after the
// answer, and RecordRefusal records a previewed refusal.
func (g Agents) PreviewCall(ctx context.Context, a *Admission, tc memproxy.ToolCall) *PreviewedRefusal {
	r := g.toolCallEvaluation(preview, a, tc)
	r.walk(ctx)
	if r.Decision.Verdict != memproxy.Deny || r.Decision.Status == memproxy.StatusUnavailable {
		return nil
	}
	return &PreviewedRefusal{Decision: r.Decision, r: r}
}

// RecordRefusal records that a call was refused as previewed, and counts it like any
// refused call of the run.
func (g Agents) RecordRefusal(ctx context.Context, p *PreviewedRefusal) {
	p.r.mode = call // only the final steps are left
	p.r.walk(ctx)
}

// decodeToolCall takes over what the adapter decoded of a tool call. The owners that it
// names are checked against the caller's tenant, like those of a request. A call is
// refused if the key that started the run was removed since, or assigned to another
// caller: a run can last for an hour. A token or a certificate remains valid for the run,
// even if it expires before its end.
func decodeToolCall(ctx context.Context, r *evaluation) error {
	if r.tool.Flaw != nil {
		r.verdict.Malformed(r.tool.Flaw)
		return nil
	}
	r.op = r.tool.Operation
	if r.run.call.who != nil && r.Principal.Method == "key" {
		p, err := r.g.opt.Identifier.Identify(ctx, r.run.call.Credentials)
		if _, rejected := errors.AsType[*memproxy.CredentialError](err); err != nil && !rejected {
			r.g.opt.Log.ErrorContext(ctx, "the caller of a run cannot be identified", "decision", r.Decision.ID, "error", err)
			r.verdict.Refuse(memproxy.StatusUnavailable, memproxy.Reason{Code: memproxy.IdentityUnavailable, Detail: notCompleted})
			return nil
		}
		if err != nil || p.ID != r.Principal.ID || p.Tenant != r.Principal.Tenant {
			r.verdict.Forbid(memproxy.IdentityInvalid, "",
				"the key that started the run no longer identifies its caller")
			return nil
		}
	}
	attributeTexts(r, r.run.op)
	noteRemoved(r)
	if r.mode == call && !r.run.compensated {
		return lockForCall(ctx, r)
	}
	loadReplaced(ctx, r)
	return nil
}

// settleToolCall settles the changes of a running agent's call that is admitted: the agent
// runs the tool next, so the call counts as made.
func settleToolCall(ctx context.Context, r *evaluation) error {
	settleChange(ctx, r.g, r.Admission)
	return nil
}

func mayCallTool(r *evaluation) bool {
	_, ok := r.call.Backend.Adapter.(backend.AgentRunner)
	return ok && r.call.Backend.Fetch != nil && writes(r)
}

// prepareToolCall handles a request that calls an agent's tool directly: it adds the call's
// changes of the agent's memory to the operation, and prepares their recording. Blocks to which
// the call only adds are locked here; those that it replaces are (loadTargets).
func prepareToolCall(ctx context.Context, r *evaluation) error {
	for again := true; again; {
		call := r.call.Backend.Adapter.(backend.AgentRunner).ToolRun(r.call.Route, r.call.Request, r.Body)
		if call == nil {
			return nil
		}
		since := currentEpoch(r.g)
		r.edits = call
		if err := fetchEdits(ctx, r.Admission); err != nil {
			r.edits = nil
			return err
		}
		again = false
		if !content.Replaces(r.op) {
			r.op.Current = call.Current()
			again = lockResolved(ctx, r, since)
		}
		if !again {
			call.AddContent(r.op)
		}
	}
	return nil
}

// refetchAdded fetches the blocks to which a call adds and that were changed after its turn had
// read them, before they were locked: their record is of another text.
func refetchAdded(ctx context.Context, r *evaluation) {
	if r.op.Kind != memproxy.Learn {
		return
	}
	_ = r.known.memories(ctx, slices.Collect(maps.Values(r.op.Current))) // after an error, the text is as the turn read it
	var stale []string
	for name, m := range r.op.Current {
		if row := r.known.owner(m.TargetKind(), m.ID); row != nil && row.SHA256 != memproxy.Hash(m.Text) {
			stale = append(stale, name)
		}
	}
	now, _ := fetch(ctx, r.call, stale)
	maps.Copy(r.op.Current, now)
}

// fetchEdits makes the side requests that are needed to follow a tool call.
func fetchEdits(ctx context.Context, a *Admission) error {
	ctx, cancel := a.call.Backend.Within(context.WithoutCancel(ctx))
	defer cancel()
	return backend.Prepare(a.edits, backend.MaxPrepare, func(q memproxy.Request) (memproxy.Reply, error) {
		q.Header = a.call.Request.Header
		return a.call.Backend.Fetch.Fetch(ctx, q)
	})
}

// recordEdits records what the call changed, also if its answer is lost. It runs before the
// answer and before the locks are released, because the next change of the same memory must not
// be read as this call's. A call that failed and changed nothing is not charged.
func recordEdits(ctx context.Context, ret *answer) {
	g, a, body, lost := ret.g, ret.Admission, ret.raw.Body, !memproxy.IsSuccess(ret.status)
	if lost {
		body = nil
	}
	_ = a.edits.ReadAnswer(body) // after an error the changes are read back
	err := fetchEdits(ctx, a)
	if err != nil { // edits that need no request are recorded all the same
		g.opt.Log.ErrorContext(ctx, "an agent's write is not recorded as a version: the backend could not be queried", "decision", a.Decision.ID, "error", err)
	}
	edits := a.edits.TakeEdits()
	switch changed := slices.ContainsFunc(edits, func(e memproxy.Edit) bool { return len(e.Memories) > 0 }); {
	case changed && (a.Failed || lost):
		settleChange(ctx, g, a)
	case a.Failed && !changed && err == nil:
		g.accounts.release(ctx, a)
	}
	for _, e := range edits {
		recordChanges(ctx, g, a, e.Memories)
	}
}

// RecordChanges records the memories that a tool call of a run changed: versions, owners, states.
// Others may change them too while the run goes on, also under an older decision: approved writes.
// What they made or replaced is left out: its version has the text before it, which is nobody's.
func (g Agents) RecordChanges(ctx context.Context, ruled *Admission, memories []memproxy.Memory) {
	known := newLookups(g.Gate, ruled)
	_ = known.memories(ctx, memories) // after an error only its stamp tells
	recordChanges(ctx, g.Gate, ruled, slices.DeleteFunc(slices.Clone(memories), func(m memproxy.Memory) bool {
		row, is := known.owner(m.TargetKind(), m.ID), memproxy.Hash(m.Text)
		switch {
		case m.Event == memproxy.MemoryUnchanged:
			return false
		case m.Stamp != nil && m.Stamp.ID > ruled.Decision.ID && m.Stamp.SHA256 == is && tamper.SignedFor(g.opt.Signer, ruled.Principal.Tenant, *m.Stamp):
			return true
		case row == nil || row.Decision <= ruled.Decision.ID && row.SHA256 == memproxy.Hash(m.Before):
			return false
		}
		now, _ := fetch(context.WithoutCancel(ctx), ruled.call, []string{m.ID})
		return row.SHA256 == is || now[m.ID].Text != m.Text
	}))
}

func recordChanges(ctx context.Context, g *Gate, ruled *Admission, memories []memproxy.Memory) {
	if len(memories) == 0 || ruled.op == nil || !ruled.enforced() {
		return
	}
	a := *ruled
	a.op = new(*ruled.op)
	a.op.Kind = memproxy.Learn // every tool call's changes are reported as for an addition
	ret := &answer{Admission: &a, g: g, status: 200, reading: &memproxy.Reading{Memories: memories}, byAgent: true}
	(&effects{answer: ret}).recordEffects(ctx)
	g.recordOutcome(ctx, ret)
}

// RuleUngated rules on a run that cannot be gated call by call, by the backend's
// setting, or by the profile. It reports whether the reply is to be sent; if not, the run
// goes on, and is compensated if its writes are to be ruled on afterwards. traceable means
// that its changes may be determined then.
func (g Agents) RuleUngated(ctx context.Context, a *Admission, traceable bool) (memproxy.Reply, bool) {
	runner, runs := a.call.Backend.Adapter.(backend.AgentRunner)
	mode := a.call.Backend.Ungated
	a.compensated = traceable && runs && mode == UngatedCompensate && a.enforced()
	switch {
	case a.compensated:
		return memproxy.Reply{}, false
	case !a.enforced() || mode != UngatedDeny && a.rules.Profile == Development:
		g.recordUngated(ctx, a, cmp.Or(a.ungatedWhy, memproxy.ErrUngated.Error()))
		return memproxy.Reply{}, false
	}
	g.accounts.release(ctx, a)
	detail := memproxy.ErrUngated.Error() + "; this is possible for agents of type letta_v1_agent on the messages routes (with background: true instead of async)"
	if runs && mode != UngatedCompensate {
		if _, err := runner.DiffRun(a.call.Route, a.call.Request, a.Body); err == nil {
			detail += ", and backends[].ungated: compensate allows such a request"
		}
	}
	return deny(ctx, g.Gate, a, memproxy.StatusForbidden, memproxy.RunUngated, cmp.Or(a.ungatedWhy, detail)), true
}

// Ungated is how runs that cannot be gated call by call are treated.
type Ungated string

// The settings for ungated runs.
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

// IsCompensated reports whether the run is admitted and compensated.
func (a *Admission) IsCompensated() bool { return a.compensated }

// RecordCompensated records that a run is admitted because its writes are ruled on at its
// end.
func (g Agents) RecordCompensated(ctx context.Context, a *Admission) {
	g.recordUngated(ctx, a, "the run cannot be paused at its tool calls; its writes are checked when it ends")
}

// AdmissionFor returns an admission for a principal without a request of this process:
// for a run that an earlier process admitted, or a pause that was never answered.
// The current rules apply. It rules on nothing and records nothing.
func (g Agents) AdmissionFor(c *Call, p memproxy.Principal, decision string) *Admission {
	r := g.begin(client, c)
	r.Principal, r.compensated = p, true
	r.Decision.ID = cmp.Or(decision, r.Decision.ID)
	r.event = r.decisionEvent(context.Background())
	return r.Admission
}

// AlreadyRuledOn reports whether a change was ruled on when it was made: it is somebody's
// write through memproxy during the run, and has a valid stamp. A new memory that
// can have no stamp counts if the ledger has it with the same text: archives are
// shared, and what another agent added is not the run's.
func (g Agents) AlreadyRuledOn(ctx context.Context, a *Admission, c memproxy.Change) bool {
	if c.Stamp == nil && len(c.Memories) == 1 && c.Memories[0].Event == memproxy.MemoryAdded && c.After != "" {
		known, id := newLookups(g.Gate, a), c.Memories[0].ID
		_ = known.need(ctx, known.key(memproxy.TargetMemory, id)) // after an error it is not known
		row := known.owner(memproxy.TargetMemory, id)
		return row != nil && !row.Deleted && row.Decision != "" && row.SHA256 == c.After
	}
	return c.Stamp != nil && c.After != "" && c.Stamp.SHA256 == c.After &&
		tamper.SignedFor(g.opt.Signer, a.Principal.Tenant, *c.Stamp)
}

// RecordUndo records the result of undoing a change that was not admitted. The hashes
// are of the text that was removed and of the one that was restored. A nil error is
// success.
func (g Agents) RecordUndo(ctx context.Context, a *Admission, c memproxy.Change, err error) {
	ret := &answer{Admission: a, g: g.Gate, status: 200}
	if a.op != nil {
		ret.shown = a.op.Targets
	}
	detail := "undone: " + hashOrNothing(c.After) + " is " + hashOrNothing(c.Before) + " again"
	if err != nil {
		ret.status = memproxy.StatusBadGateway
		detail = "could not be undone: " + hashOrNothing(c.After) + " is still in the place of " + hashOrNothing(c.Before)
		g.opt.Log.ErrorContext(ctx, "a write that was not admitted could not be undone", "decision", a.Decision.ID, "targets", ret.shown, "error", err)
	}
	ret.reasons = []memproxy.Reason{{Code: memproxy.RunUngated, Detail: detail}}
	g.recordOutcome(ctx, ret)
}

func hashOrNothing(hash string) string {
	if hash == "" {
		return "nothing"
	}
	return "sha256 " + hash
}

// RecordUnsettled records that the changes of a run could not be ruled on yet, or, when
// given up, never were.
func (g Agents) RecordUnsettled(ctx context.Context, a *Admission, givenUp bool, err error) {
	ret := &answer{Admission: a, g: g.Gate}
	detail := "the run's writes have not been checked yet"
	if givenUp {
		detail = "the run's writes were never checked"
	}
	g.opt.Log.ErrorContext(ctx, detail, "decision", a.Decision.ID, "error", err)
	ret.reasons = []memproxy.Reason{{Code: memproxy.RunUngated, Detail: detail}}
	g.recordOutcome(ctx, ret)
}

// recordUngated records that a run goes on although its calls are not ruled on.
func (g Agents) recordUngated(ctx context.Context, a *Admission, why string) {
	ev := followUpEvent(&a.event, memproxy.EventOutcome, g.opt.Clock())
	ev.Reasons = []memproxy.Reason{{Code: memproxy.RunUngated, Detail: why}}
	g.accounts.recordAsync(ctx, ev)
}
