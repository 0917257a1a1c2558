package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/agentrun"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
)

// previewApprovalCalls lets the gate rule in advance on the calls of a pause that a person is
// about to approve, so that no person is asked to approve a call that would be refused.
// It then forwards the rest of the pause to the caller. It reports whether memproxy has
// no more calls to answer, which ends a turn that has begun.
func (t *agentTurn) previewApprovalCalls(ctx context.Context) (over bool, err error) {
	calls := t.turn.ApprovalCalls()
	if t.cancelled(ctx) {
		return true, t.cancel(ctx)
	}
	if len(calls) == 0 {
		return false, nil
	}
	var refused []*gate.PreviewedRefusal
	for _, call := range calls {
		if f := t.p.opt.Gate.Agents().PreviewCall(ctx, t.a, call); f != nil {
			t.turn.Rule(call.ID, f.Decision)
			refused = append(refused, f)
		}
	}
	for more := true; more; {
		var events [][]byte
		events, more = t.turn.ReleasePause()
		t.sendFiltered(ctx, events)
	}
	if !t.turn.Paused() {
		if t.cancelled(ctx) {
			return true, t.cancel(ctx)
		}
		if t.status != 0 {
			err = t.finish(ctx)
		}
		return true, err // a refused call is sent together with the caller's answer to the others
	}
	for _, f := range refused {
		t.p.opt.Gate.Agents().RecordRefusal(ctx, f)
	}
	return false, nil
}

func (t *agentTurn) ruleOnPending(ctx context.Context) error {
	t.ruled = map[string]*gate.Admission{}
	for _, call := range t.turn.PendingCalls() {
		if call.ReadRequest != nil {
			if err := t.search(ctx, call); err != nil {
				t.abandonWaiting(ctx)
				return err
			}
			continue
		}
		asked := t.ruleOn(ctx, call)
		t.turn.Rule(call.ID, asked.Decision)
		t.ruled[call.ID] = asked
		switch {
		case asked.Decision.Verdict.Stops():
		case asked.Decision.Verdict == memproxy.Amend && call.Direct != nil:
			t.sendAmended(ctx, asked, call)
		default:
			t.waiting = append(t.waiting, asked)
		}
	}
	return nil
}

// ruleOn rules on a call. It declines a call that another caller's turn left: this
// turn's caller may have more authority, and the agent can make the call again.
func (t *agentTurn) ruleOn(ctx context.Context, call memproxy.ToolCall) *gate.Admission {
	if call.FromEarlierTurn && !t.resumes {
		return t.p.opt.Gate.Agents().Decline(ctx, t.a, call, agentrun.DeclinedResult)
	}
	return t.p.opt.Gate.Agents().RuleOnCall(ctx, t.a, call)
}

// abandonWaiting records that the admitted calls will not be made. They are not charged.
func (t *agentTurn) abandonWaiting(ctx context.Context) {
	for _, asked := range t.waiting {
		t.p.opt.Gate.AbandonUnsent(context.WithoutCancel(ctx), asked, memproxy.StreamWhole)
	}
	t.waiting = nil
}

// cancelled reports whether a caller cancelled the turn since its first request was sent.
func (t *agentTurn) cancelled(ctx context.Context) bool {
	return t.status != 0 && t.recorded.Cancelled(ctx)
}

// cancel ends a cancelled turn instead of sending its next request. It cancels the latest
// run, so that no later turn makes the run's pending calls.
func (t *agentTurn) cancel(ctx context.Context) error {
	t.abandonWaiting(ctx)
	reply, err := t.makeRequest(ctx, t.turn.Cancel())
	if err == nil && !t.p.opt.Adapter.(backend.AgentRunner).Stopped(reply, t.turn.Runs()) {
		err = fmt.Errorf("the backend did not cancel the run: status %d", reply.Status)
	}
	if err != nil {
		t.spent = true // the cancelled calls must never be made
		return err
	}
	return t.finish(ctx)
}

// finish sends the rest of the answer if no further request follows. The caller's next request
// may change what the calls changed, so that is recorded first.
func (t *agentTurn) finish(ctx context.Context) error {
	t.recorded.Last()
	_ = t.recordEdits(ctx)
	if t.streams {
		t.ending = true
		t.sendFiltered(ctx, t.turn.Tail())
		return nil
	}
	t.begun = true
	t.sendAnswer(ctx, t.turn.Answer(), t.body)
	return nil
}

// search makes a search on behalf of the agent, as if the caller had sent it: it is
// admitted, filtered and recorded like any request.
func (t *agentTurn) search(ctx context.Context, tc memproxy.ToolCall) error {
	req, asker := tc.ReadRequest.Request, t.a.Call()
	req.Base = asker.Request.Base
	req.Header = memproxy.Header(t.r.Header.Clone())
	req.Header.Set("Content-Type", "application/json")
	route, known := t.p.opt.Adapter.Route(req)
	if !known { // the adapter has no route for its own request
		return errors.New("the search request of a tool call matches no route of the backend")
	}
	a := t.p.opt.Gate.Admit(ctx, &gate.Call{
		Backend: t.p.backend, Credentials: asker.Credentials, Request: req, Route: route, Known: true,
		Body: tc.ReadRequest.Body, ReadOptions: gate.ReadOptions{MinTrust: asker.ReadOptions.MinTrust},
	})
	frontend.LogDecision(ctx, t.p.opt.Log, t.p.opt.Name, a)
	t.turn.Rule(tc.ID, a.Decision)
	if a.Reply != nil {
		return nil
	}
	reply, err := t.makeRequest(ctx, memproxy.SideRequest{Request: req, Body: a.Body})
	if err != nil {
		t.turn.Result(tc.ID, t.p.opt.Gate.Abandon(ctx, a, memproxy.StreamWhole))
		return nil
	}
	t.turn.Result(tc.ID, t.p.opt.Gate.Return(ctx, a, reply))
	return nil
}

// sendAmended sends a call that was admitted with changes. The backend's protocol for
// pauses cannot express changes, so memproxy makes the changed call itself and answers
// the pause with the result.
func (t *agentTurn) sendAmended(ctx context.Context, asked *gate.Admission, tc memproxy.ToolCall) {
	reply, err := t.makeRequest(ctx, *tc.Direct)
	notSent := errors.As(err, new(frontend.UnsentError))
	t.spent = t.spent || !notSent
	switch {
	case notSent:
		reply = t.p.opt.Gate.AbandonUnsent(ctx, asked, memproxy.StreamWhole)
	case err != nil:
		reply = t.p.opt.Gate.Abandon(ctx, asked, memproxy.StreamWhole)
	case reply.Status != http.StatusOK:
		t.p.opt.Gate.RecordUnfiltered(ctx, asked, reply.Status, memproxy.StreamWhole)
	}
	t.turn.Result(tc.ID, reply)
}

func (t *agentTurn) makeRequest(ctx context.Context, q memproxy.SideRequest) (memproxy.Reply, error) {
	q.Request.Header = memproxy.Header(t.r.Header)
	ctx, cancel := t.p.backend.Within(ctx)
	defer cancel()
	return t.p.side.For(t.a.Call().Caller()).Send(ctx, q.Request, q.Body)
}

// recordEdits lets the gate record what the calls of a request changed, after the backend has
// run them: each change is a version with the whole text before and after. A change that
// cannot be determined is logged and does not fail the call. A stop does not cut it short.
func (t *agentTurn) recordEdits(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	err := t.prepare(ctx)
	if err != nil && len(t.ruled) > 0 {
		t.p.opt.Log.ErrorContext(ctx, "an agent's write is not recorded as a version: reading the memory from the backend failed", "backend", t.p.opt.Name, "decision", t.a.Decision.ID, "error", err)
	}
	for _, e := range t.turn.TakeEdits() {
		if a := t.ruled[e.Call]; a != nil {
			t.p.opt.Gate.Agents().RecordChanges(ctx, a, e.Memories)
		}
	}
	t.ruled = nil
	return err
}

// A Letta server answers with a pause before it has stored all of it, and refuses an approval
// that arrives earlier with 404: it has run nothing, so the approval is repeated after a pause
// of notStored, then of twice as long, up to lastNotStored.
const notStored, lastNotStored = 20 * time.Millisecond, time.Second
