package extproc

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// end ends the span of an exchange. If Envoy ended the exchange early, because the client
// disconnected or the backend took too long, it records the outcome.
func (x *exchange) end() {
	x.entry.Lease.Release()
	if x.span == nil {
		return
	}
	ctx := context.WithoutCancel(x.ctx)
	if x.entry.Class.Ruled() && x.admission == nil && !x.settled {
		x.ctx = ctx
		x.refuseUnread(frontend.TooSlow())
	}
	if x.admission != nil && !x.settled {
		x.answer.recordReset(ctx)
	}
	x.arrived()
	verdict := x.entry.End(x.span, x.admission, x.req.Method, x.status)
	x.span.End()
	x.b.Observe(ctx, string(x.entry.Class.Route.Kind), verdict, x.status, x.p.opt.Clock().Sub(x.begun))
}

func (x *exchange) arrived() {
	if x.forward != nil {
		x.forward.End()
		x.forward = nil
	}
}

// cutShort refuses a request that Envoy answers itself, because the body exceeds Envoy's
// buffer or did not arrive.
func (x *exchange) cutShort(a attrs) (*change, error) {
	if a.fromUpstream() {
		return nil, errUnruled
	}
	flaw := frontend.TooSlow()
	if strings.HasPrefix(a[attrDetails].GetStringValue(), "request_payload_too_large") {
		flaw = frontend.TooLarge(x.b.MaxBody)
	}
	return x.refuseUnread(flaw), nil
}

// refuseUnread refuses a request whose body did not arrive, also in shadow mode.
func (x *exchange) refuseUnread(flaw *memproxy.Flaw) *change {
	_, refusal := x.admit(nil, flaw)
	if refusal == nil {
		refusal = x.reply(x.p.opt.Gate.AbandonUnreadable(context.WithoutCancel(x.ctx), x.admission, flaw))
	}
	return refusal
}

func (x *exchange) replyUnreadable(err error) *change {
	if why := frontend.AnswerFlaw(err, x.b.MaxAnswer); why != nil {
		return x.reply(x.p.opt.Gate.AbandonUnreadable(context.WithoutCancel(x.forwarded), x.admission, why))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return x.abandon(http.StatusGatewayTimeout)
	}
	return x.abandon(http.StatusBadGateway)
}

func (x *exchange) abandon(code int) *change {
	x.p.opt.Log.WarnContext(x.ctx, "the backend did not respond", "backend", x.b.Name, "decision", x.admission.Decision.ID)
	reply := x.p.opt.Gate.Abandon(context.WithoutCancel(x.forwarded), x.admission, memproxy.StreamWhole)
	if code == http.StatusGatewayTimeout {
		reply.Status = code
	}
	return x.reply(reply)
}
