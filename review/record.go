package review

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"

	"github.com/memproxy/memproxy"
)

func (c *call) event(stage memproxy.ActStage, tenant, backend, decision string, targets ...string) memproxy.Event {
	who := reviewerPrincipal(c.who.ID, tenant)
	who.Method = "key"
	if c.who.Sum == [sha256.Size]byte{} {
		who.Method = "socket"
	}
	ev := memproxy.ActEvent(c.api.opt.Clock(), who, memproxy.Act{Action: c.act, Stage: stage, Reason: c.reason}, backend, decision, targets...)
	ev.Method, ev.Findings, ev.Versions = c.req.Method, c.found, c.versions
	return ev
}

func reviewerPrincipal(id, tenant string) memproxy.Principal {
	return memproxy.Principal{ID: id, Kind: memproxy.KindHuman, Tenant: tenant, Trust: memproxy.TrustHuman}
}

// record writes the action to the audit log before it takes effect; recordOutcome records the
// result.
func (c *call) record(tenant, backend, decision string, targets ...string) error {
	ev := c.event(memproxy.ActAttempted, tenant, backend, decision, targets...)
	err := c.api.Runner.attempt(c.ctx(), ev)
	if err == nil {
		c.attempt = &ev
	}
	return err
}

// recordOutcome records the result of an attempt. A request that is refused before the attempt,
// because of the reviewer's role or of its content, is also recorded, because it is an
// attempted action.
func (c *call) recordOutcome(answer any, err error) {
	asks := problemOf(err).Confirm != ""
	if c.act == "" || asks || c.attempt == nil && (err == nil || errors.Is(err, errAudit)) {
		return // nothing was attempted, or no record can be written
	}
	rule, stage := ruleOf(err)
	if c.attempt == nil && c.req.Method == http.MethodGet && rule != "role" {
		return // a lookup without a result
	}
	ev := c.event(stage, "", c.req.PathValue("backend"), "")
	if id := c.req.PathValue("id"); id != "" {
		ev.Targets = []string{id}
		if strings.HasPrefix(c.req.URL.Path, "/v1/holds/") { // a hold has the id of its decision
			ev.Decision = memproxy.InertID(id)
		}
	}
	if c.attempt != nil {
		ev = *c.attempt
	}
	ev.Time = c.api.opt.Clock()
	ev.Act = &memproxy.Act{Action: c.act, Stage: stage, Rule: rule, Reason: c.reason}
	if err == nil {
		addDetails(&ev, answer)
	}
	c.api.Runner.note(c.ctx(), ev)
}

// attempt records that an action is about to be performed.
func (r *Runner) attempt(ctx context.Context, ev memproxy.Event) error {
	ctx, cancel := context.WithTimeout(ctx, r.opt.Timeout)
	defer cancel()
	if err := r.opt.Recorder.Record(ctx, ev); err != nil {
		return errors.Join(errAudit, err)
	}
	return nil
}

// note records the result of an action that is already done or refused, even if the
// client has disconnected.
func (r *Runner) note(ctx context.Context, ev memproxy.Event) {
	if ev.Act.Stage == memproxy.ActRefused {
		ev.Verdict, ev.ShadowVerdict = memproxy.Deny, memproxy.Deny
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.Timeout)
	defer cancel()
	if err := r.opt.Recorder.Record(ctx, ev); err != nil {
		r.opt.Log.ErrorContext(ctx, "the result of a review action could not be recorded", "action", ev.Act.Action, "stage", string(ev.Act.Stage), "decision", ev.Decision, "error", err)
	}
}

func addDetails(ev *memproxy.Event, answer any) {
	switch got := answer.(type) {
	case Settled:
		ev.Act.Have, ev.Act.Need = got.Have, got.Need
	case memproxy.VoteResult:
		ev.Act.Have, ev.Act.Need = got.Have, got.Need
	case BatchAnswer:
		ev.Act.Have, ev.Act.Need = got.Have, got.Need
		for i := range got.Holds {
			ev.Targets = append(ev.Targets[:len(ev.Targets):len(ev.Targets)], got.Holds[i].ID)
		}
	case RollbackAnswer:
		rolledBack(ev, got)
	case JobRun:
		if got.Failed != "" {
			ev.Act.Stage, ev.Act.Rule = memproxy.ActFailed, "job"
		}
	}
}

func rolledBack(ev *memproxy.Event, got RollbackAnswer) {
	ev.Act.Have, ev.Act.Need = got.votes.Have, got.votes.Need
	if got.Votes != nil {
		return
	}
	ev.Status = got.Result.Status
	if made := got.Version; made != nil {
		ev.Versions = []memproxy.VersionChange{made.Change()}
		return
	}
	act := acts[got.outcome]
	ev.Act.Stage, ev.Act.Rule = act.Stage, act.Rule
}

// ruleOf returns why an action was refused or failed, as a code of the API.
func ruleOf(err error) (rule string, stage memproxy.ActStage) {
	if err == nil {
		return "", memproxy.ActDone
	}
	switch p := problemOf(err); {
	case errors.Is(err, errMaybeSent):
		return "upstream", memproxy.ActUnknown
	case errors.Is(err, errOvertaken):
		return "stale", memproxy.ActFailed
	case p.Code == errChanged.Code:
		return "stale", memproxy.ActRefused
	case p.Status >= http.StatusInternalServerError:
		return p.Code, memproxy.ActFailed
	default:
		return p.Code, memproxy.ActRefused
	}
}

// acts has the stage and the rule with which each outcome is recorded.
var acts = [...]memproxy.Act{
	memproxy.OutcomeUnknown:  {Stage: memproxy.ActUnknown, Rule: "upstream"},
	memproxy.OutcomeDone:     {Stage: memproxy.ActDone},
	memproxy.OutcomeRefused:  {Stage: memproxy.ActRefused, Rule: "memproxy"},
	memproxy.OutcomeRejected: {Stage: memproxy.ActFailed, Rule: "upstream"},
	memproxy.OutcomeUnsent:   {Stage: memproxy.ActFailed, Rule: "not_sent"},
	memproxy.OutcomeDenied:   {Stage: memproxy.ActFailed, Rule: "credential"},
}

// event returns a record of sending a hold, on behalf of its reviewer.
func (r *Runner) event(h *memproxy.HeldWrite, act memproxy.Act) memproxy.Event {
	act.Action, act.Reason = "hold.replay", h.Note
	if h.ByRules() {
		return h.ServiceEvent(r.opt.Clock(), h.Reviewer, act)
	}
	return memproxy.ActEvent(r.opt.Clock(), reviewerPrincipal(h.Reviewer, h.Tenant), act, h.Backend, h.ID, h.ID)
}

func (r *Runner) recordResult(ctx context.Context, h *memproxy.HeldWrite, act memproxy.Act, result memproxy.HoldResult) {
	ev := r.event(h, act)
	ev.Status, ev.Memories = result.Status, result.Memories
	r.note(ctx, ev)
}

// recordRollback records the result of a rollback that began earlier, in this or another
// process.
func (r *Runner) recordRollback(ctx context.Context, b *memproxy.Rollback, stage memproxy.ActStage, rule string, made *memproxy.Version) {
	act := memproxy.Act{Action: "memory.rollback", Stage: stage, Rule: rule, Reason: b.Reason}
	ev := memproxy.ActEvent(r.opt.Clock(), reviewerPrincipal(b.Reviewer, b.Tenant), act, b.Backend, b.Decision, b.ID)
	if made != nil {
		ev.Versions = []memproxy.VersionChange{made.Change()}
	}
	r.note(ctx, ev)
}
