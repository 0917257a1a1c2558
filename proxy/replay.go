package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// Own sends memproxy's own requests to a backend: approved writes, restored versions,
// reads of one memory.
type Own struct{ p *Proxy }

// Replay sends a held write that was approved.
func (o *Own) Replay(ctx context.Context, h memproxy.HeldWrite, content memproxy.HoldContent) memproxy.Sent {
	ctx, span := o.p.opt.Tracer.Start(ctx, signal.SpanServer+h.Route, trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	a, err := o.p.opt.Gate.Reviewed().Replay(ctx, o.p.backend, h, content)
	if errors.Is(err, gate.ErrGone) { // the route no longer exists, so no later attempt can succeed
		return memproxy.Sent{Outcome: memproxy.OutcomeRefused, Result: memproxy.HoldResult{Detail: "memproxy no longer knows the route of this write"}}
	}
	if err != nil {
		return memproxy.Unsent(err)
	}
	return o.dispatch(ctx, span, a, memproxy.Request{Method: h.Method, EscapedPath: h.EscapedPath, Header: content.Header})
}

// dispatch sends one of memproxy's own requests that the gate has admitted, on behalf of
// its author. It is sent, logged and traced like a client's request; span is the span of
// the request.
func (o *Own) dispatch(ctx context.Context, span trace.Span, a *gate.Admission, req memproxy.Request) (sent memproxy.Sent) {
	e := frontend.Entry{Class: frontend.Class{Name: a.Call().Route.ID}}
	defer func() { e.End(span, a, req.Method, sent.Result.Status) }()
	frontend.LogDecision(ctx, o.p.opt.Log, o.p.opt.Name, a)
	if a.Reply != nil {
		return refused(a)
	}
	locking, cancel := o.p.backend.Within(ctx) // the remaining time is for the request
	defer cancel()
	err := toolsLocked(locking, o.p, a, a.Next, func() { sent = o.send(ctx, a, req) })
	switch end := context.WithoutCancel(ctx); {
	case errors.Is(err, memproxy.ErrUngated):
		agents := o.p.opt.Gate.Agents()
		_, refused := agents.Ungated(end, a)
		if a.Watched() { // the request is no run, so there is nothing to compensate
			_, refused = agents.Blind(end, a)
		}
		if !refused {
			return o.send(ctx, a, req)
		}
		return memproxy.Sent{Outcome: memproxy.OutcomeRefused, Result: memproxy.HoldResult{Detail: "memproxy refused it: " + string(memproxy.RunUngated) + ": " + err.Error()}}
	case err != nil:
		o.p.opt.Gate.Unsent(end, a, memproxy.StreamWhole)
		return memproxy.Unsent(err)
	}
	return sent
}

func (o *Own) send(ctx context.Context, a *gate.Admission, req memproxy.Request) memproxy.Sent {
	lease := o.p.opt.InFlight.Lease(frontend.Own)
	defer lease.Release()
	if err := lease.Grow(ctx, int64(len(a.Body))); err != nil {
		o.p.opt.Gate.Unsent(context.WithoutCancel(ctx), a, memproxy.StreamGone)
		return memproxy.Unsent(err)
	}
	path, err := url.PathUnescape(req.EscapedPath)
	if err != nil {
		return memproxy.Unsent(err)
	}
	out := &http.Request{Method: req.Method, URL: frontend.Join(o.p.opt.Upstream, path, req.EscapedPath, a.Query, false), Header: o.p.opt.RequestHeaders(http.Header(req.Header), true, true)}
	if len(a.Body) > 0 {
		frontend.SetBody(out, a.Body)
	}
	ctx, cancel := context.WithTimeout(ctx, o.p.opt.UpstreamTimeout)
	defer cancel()
	ctx, span := o.p.opt.Tracer.Start(ctx, signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	o.p.opt.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	resp, err := o.p.opt.Transport.RoundTrip(out.WithContext(ctx))
	var body []byte
	if err == nil {
		defer resp.Body.Close()
		body, _, err = frontend.ReadAnswer(resp, o.p.opt.MaxAnswer, func(n int64) error { lease.Force(n); return nil }) // the write has happened
	}
	if err != nil {
		sent := sentOrNot(err)
		if end := context.WithoutCancel(ctx); sent.Outcome == memproxy.OutcomeUnsent {
			o.p.opt.Gate.Unsent(end, a, memproxy.StreamWhole)
		} else {
			o.p.opt.Gate.Abandon(end, a, memproxy.StreamWhole)
		}
		return sent
	}
	o.p.opt.Gate.Return(context.WithoutCancel(ctx), a, memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: body})
	o.p.follower.Follow(a)
	return memproxy.Answered(memproxy.HoldResult{Status: resp.StatusCode, Memories: a.Memories})
}

// sentOrNot returns the outcome of a request that failed. Without a connection nothing
// was sent; otherwise it is unknown whether the backend processed it.
func sentOrNot(err error) memproxy.Sent {
	if errors.As(unsent(err), new(unsentError)) {
		return memproxy.Unsent(fmt.Errorf("%w: %w", memproxy.ErrAway, err))
	}
	return memproxy.SentOrNot(err)
}

// refused returns the outcome of a request that the gate refused. A refusal because of a
// failure can be retried; any other is final.
func refused(a *gate.Admission) memproxy.Sent {
	detail := "refused"
	why := a.Decision.Reasons
	if i := slices.IndexFunc(why, func(r memproxy.Reason) bool { return r.Code != memproxy.ReviewApproved }); i >= 0 {
		detail = string(why[i].Code) + ": " + why[i].Detail
	}
	if a.Reply.Status >= 500 {
		return memproxy.Unsent(errors.New(detail))
	}
	return memproxy.Sent{Outcome: memproxy.OutcomeRefused, Result: memproxy.HoldResult{Detail: "memproxy refused it: " + detail}}
}

// Reconsider evaluates a held write under the current rules. Its span belongs to no
// request.
func (o *Own) Reconsider(ctx context.Context, h memproxy.HeldWrite, content memproxy.HoldContent) (memproxy.Reevaluation, error) {
	ctx, span := o.p.opt.Tracer.Start(ctx, signal.SpanServer+h.Route)
	defer span.End()
	return o.p.opt.Gate.Reviewed().Reconsider(ctx, o.p.backend, h, content)
}

// Sought asks the backend whether an approved write with an unknown outcome arrived.
// known is false if the backend cannot tell.
func (o *Own) Sought(ctx context.Context, h memproxy.HeldWrite, content memproxy.HoldContent) (ids []string, known bool, err error) {
	return o.p.opt.Gate.Reviewed().Seek(ctx, o.p.backend, h, content)
}
