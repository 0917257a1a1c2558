package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// BackendClient sends memproxy's own requests to a backend: approved writes, restored
// versions, reads of one memory.
type BackendClient Proxy

// Replay sends a held write that was approved.
func (o *BackendClient) Replay(ctx context.Context, h memproxy.HeldWrite, content memproxy.HoldContent) memproxy.SendResult {
	ctx, span := o.opt.Tracer.Start(ctx, signal.SpanServer+h.Route, trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	a, err := o.opt.Gate.Reviewed().Replay(ctx, o.backend, h, content)
	if errors.Is(err, gate.ErrRouteGone) { // the route no longer exists, so no later attempt can succeed
		return memproxy.SendResult{Outcome: memproxy.OutcomeRefused, Result: memproxy.HoldResult{Detail: "the route of this write is no longer in memproxy's route table"}}
	}
	if err != nil {
		return memproxy.UnsentResult(err)
	}
	return o.dispatch(ctx, span, a, memproxy.Request{Method: h.Method, EscapedPath: h.EscapedPath, Header: content.Header})
}

// dispatch sends one of memproxy's own requests that the gate has admitted, on behalf of
// its author. It is sent, logged and traced like a client's request; span is the span of
// the request.
func (o *BackendClient) dispatch(ctx context.Context, span trace.Span, a *gate.Admission, req memproxy.Request) (sent memproxy.SendResult) {
	e := frontend.Entry{Class: frontend.Class{Name: a.Call().Route.ID}}
	defer func() { e.End(span, a, req.Method, sent.Result.Status) }()
	frontend.LogDecision(ctx, o.opt.Log, o.opt.Name, a)
	if a.Reply != nil {
		return refused(a)
	}
	locking, cancel := o.backend.Within(ctx) // the remaining time is for the request
	defer cancel()
	err := withToolsLocked(locking, (*Proxy)(o), a, a.Next, func() { sent = o.send(ctx, a, req) })
	switch end := context.WithoutCancel(ctx); {
	case errors.Is(err, memproxy.ErrUngated):
		if _, refused := o.opt.Gate.Agents().RuleUngated(end, a, false); !refused {
			return o.send(ctx, a, req) // the request is no run, so there is nothing to compensate
		}
		return memproxy.SendResult{Outcome: memproxy.OutcomeRefused, Result: memproxy.HoldResult{Detail: "memproxy refused the write: " + string(memproxy.RunUngated) + ": " + err.Error()}}
	case err != nil:
		o.opt.Gate.AbandonUnsent(end, a, memproxy.StreamWhole)
		return memproxy.UnsentResult(err)
	}
	return sent
}

func (o *BackendClient) send(ctx context.Context, a *gate.Admission, req memproxy.Request) memproxy.SendResult {
	lease := o.opt.InFlight.Lease(frontend.OwnPeer)
	defer lease.Release()
	if err := lease.Grow(ctx, int64(len(a.Body))); err != nil {
		o.opt.Gate.AbandonUnsent(context.WithoutCancel(ctx), a, memproxy.StreamNoRoom)
		return memproxy.UnsentResult(err)
	}
	out := &http.Request{Method: req.Method, URL: frontend.Join(o.opt.Upstream, req.EscapedPath, a.Query, false), Header: o.opt.RequestHeaders(http.Header(req.Header), true, true)}
	if len(a.Body) > 0 {
		frontend.SetBody(out, a.Body)
	}
	ctx, cancel := context.WithTimeout(ctx, o.opt.UpstreamTimeout)
	defer cancel()
	ctx, span := o.opt.Tracer.Start(ctx, signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	o.opt.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	resp, err := o.opt.Transport.RoundTrip(out.WithContext(ctx))
	var body []byte
	if err == nil {
		defer resp.Body.Close()
		frontend.RewriteLocation(resp.Header, o.opt.Upstream, out.Header)
		body, _, err = frontend.ReadAnswer(resp, o.opt.MaxAnswer, func(n int64) error { lease.Force(n); return nil }) // the write has happened
	}
	if err != nil {
		sent := outcomeOf(err)
		if end := context.WithoutCancel(ctx); sent.Outcome == memproxy.OutcomeUnsent {
			o.opt.Gate.AbandonUnsent(end, a, memproxy.StreamWhole)
		} else {
			o.opt.Gate.Abandon(end, a, memproxy.StreamWhole)
		}
		return sent
	}
	o.opt.Gate.Return(context.WithoutCancel(ctx), a, memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: body})
	o.follower.Follow(a)
	result := memproxy.HoldResult{Status: resp.StatusCode, Memories: a.Memories}
	if a.Failed {
		result.Detail = memproxy.CallFailed
	}
	return memproxy.AnsweredResult(result)
}

// outcomeOf returns the outcome of a request that failed. Unless it is certain that
// nothing was sent, it is unknown whether the backend processed the request.
func outcomeOf(err error) memproxy.SendResult {
	if errors.As(err, new(frontend.UnsentError)) {
		return memproxy.UnsentResult(err)
	}
	return memproxy.SendResult{Err: err}
}

// refused returns the outcome of a request that the gate refused. A refusal because of a
// failure can be retried; any other is final.
func refused(a *gate.Admission) memproxy.SendResult {
	detail := "refused"
	why := a.Decision.Reasons
	if i := slices.IndexFunc(why, func(r memproxy.Reason) bool { return r.Code != memproxy.ReviewApproved }); i >= 0 {
		detail = string(why[i].Code) + ": " + why[i].Detail
	}
	if a.Reply.Status >= 500 {
		return memproxy.UnsentResult(errors.New(detail))
	}
	return memproxy.SendResult{Outcome: memproxy.OutcomeRefused, Result: memproxy.HoldResult{Detail: "memproxy refused the write: " + detail}}
}

// Reevaluate evaluates a held write under the current rules. Its span belongs to no
// request.
func (o *BackendClient) Reevaluate(ctx context.Context, h memproxy.HeldWrite, content memproxy.HoldContent) (memproxy.Reevaluation, error) {
	ctx, span := o.opt.Tracer.Start(ctx, signal.SpanServer+h.Route)
	defer span.End()
	return o.opt.Gate.Reviewed().Reevaluate(ctx, o.backend, h, content)
}

// FindWrite asks the backend whether an approved write with an unknown outcome arrived.
// known is false if the backend cannot tell.
func (o *BackendClient) FindWrite(ctx context.Context, h memproxy.HeldWrite, content memproxy.HoldContent) (ids []string, known bool, err error) {
	return o.opt.Gate.Reviewed().FindWrite(ctx, o.backend, h, content)
}
