package extproc

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// exchange is one request through Envoy and, if it is forwarded, its answer. Envoy sends
// its messages one at a time.
type exchange struct {
	p     *Processor
	b     *backend
	begun time.Time

	ctx  context.Context // context of the server span
	span trace.Span
	req  request

	entry     frontend.Entry
	admission *gate.Admission
	forwarded context.Context // context of the span of the upstream request, until the backend answers
	forward   trace.Span
	settled   bool // the outcome is recorded, or there is none to record
	status    int
	over      bool // the exchange is complete: the stream is closed
	unread    bool // the request was admitted by its head; its body is forwarded without being read

	answer      answer
	observation observation // state in observability mode

	// inspect and byStatus apply to public routes: inspect is set if unclaimed members
	// must be removed from the answer, byStatus if an error is reduced to its status.
	inspect, byStatus bool
}

func newExchange(p *Processor) *exchange {
	x := &exchange{p: p}
	x.answer.x, x.observation.x = x, x
	return x
}

// take answers one message. It stores the decision on a forwarded request in Envoy's
// dynamic metadata, for answers that Envoy gives itself and that no filter sees.
func (x *exchange) take(ctx context.Context, msg *procv3.ProcessingRequest) (*procv3.ProcessingResponse, error) {
	c, err := x.respond(ctx, msg)
	if c == nil {
		return nil, err
	}
	r := c.response(msg)
	if x.forward != nil {
		r.DynamicMetadata = decisionMetadata(frontend.FormatDecision(x.admission.Shown()))
	}
	return r, err
}

func (x *exchange) respond(ctx context.Context, msg *procv3.ProcessingRequest) (*change, error) {
	if msg.GetObservabilityMode() {
		return nil, x.observation.message(ctx, msg)
	}
	switch m := msg.Request.(type) {
	case *procv3.ProcessingRequest_RequestHeaders:
		if err := checkModes(msg.GetProtocolConfig()); err != nil {
			return nil, err
		}
		return x.requestHeaders(ctx, m.RequestHeaders, attributes(msg))
	case *procv3.ProcessingRequest_RequestBody:
		return x.requestBody(m.RequestBody)
	case *procv3.ProcessingRequest_RequestTrailers:
		return x.requestTrailers(m.RequestTrailers)
	case *procv3.ProcessingRequest_ResponseHeaders:
		return x.answer.headers(m.ResponseHeaders, attributes(msg))
	case *procv3.ProcessingRequest_ResponseBody:
		return x.answer.body(m.ResponseBody)
	case *procv3.ProcessingRequest_ResponseTrailers:
		return x.answer.trailers(m.ResponseTrailers)
	}
	return nil, errProtocol
}

func (x *exchange) begin(ctx context.Context, h *procv3.HttpHeaders, a attrs) error {
	if x.span != nil {
		return errProtocol
	}
	pseudo, header := headers(h.GetHeaders())
	r := describe(pseudo, header, a.peer())
	r.credentials.Peer = frontend.Peer(a[attrSource].GetStringValue()) // "" if the attribute is not configured
	x.start(ctx, r, !h.GetEndOfStream())
	return nil
}

func (x *exchange) start(ctx context.Context, r request, body bool) {
	class := x.b.Classify(frontend.Head{Request: r.Request, Sent: r.credentials.Header, Body: body})
	if to := class.Route.Respelled; to != "" {
		r.forwarded = to + r.forwarded[len(r.EscapedPath):]
		r.EscapedPath = to
	}
	x.begun, x.req = x.p.opt.Clock(), r
	if r.flaw != nil {
		class.Handling = frontend.Gated
	}
	x.entry = frontend.Entry{Gate: x.p.opt.Gate, Log: x.p.opt.Log, Lease: x.b.InFlight.Lease(r.credentials.Peer), Class: class, Call: gate.Call{
		Backend: x.b.Backend.Backend, Credentials: r.credentials, Request: r.Request,
	}}
	ctx = x.p.opt.Propagator.Extract(ctx, propagation.HeaderCarrier(r.Header))
	x.ctx, x.span = x.p.opt.Tracer.Start(ctx, signal.SpanServer+class.Name, trace.WithSpanKind(trace.SpanKindServer))
}

// requestHeaders rules immediately if no body follows, and otherwise requests the body.
func (x *exchange) requestHeaders(ctx context.Context, h *procv3.HttpHeaders, a attrs) (*change, error) {
	if err := x.begin(ctx, h, a); err != nil {
		return nil, err
	}
	switch {
	case x.entry.Class.Ruled():
	case x.entry.Lease.Enter(x.ctx, "", "") != nil:
		return x.reply(frontend.NoRoom(x.b.Adapter, x.req.Request)), nil
	case x.entry.Class.Handling == frontend.Public:
		return x.open(), nil
	default:
		return x.preflight(), nil
	}
	flaw, reads := x.req.flaw, x.entry.Class.ReadsBody()
	if flaw == nil && reads && x.req.length() > x.b.MaxBody {
		flaw = frontend.TooLarge(x.b.MaxBody)
	}
	// The body is not requested if the caller is not accepted, or if there is no room for
	// it.
	if x.entry.Identify(x.ctx) && x.entry.Enter(x.ctx) && flaw == nil && reads && !h.GetEndOfStream() {
		if x.entry.Lease.Room(x.ctx, x.req.length()) == nil {
			return &change{next: wholeExchange()}, nil
		}
		flaw = frontend.Busy()
	}
	c := x.rule(nil, flaw)
	switch {
	case c.instead != nil:
	case flaw == nil && reads:
		c.next = wholeExchange()
	case flaw == nil && x.admission.Inspect:
		c.next, x.unread = answerOnly(), true
	default:
		c.next, x.unread = headersOnly(), true // also in shadow mode, for a body that is too large and is not read
	}
	return c, nil
}

func (x *exchange) requestBody(b *procv3.HttpBody) (*change, error) {
	if x.unread { // Envoy did not accept the mode override
		return &change{}, nil
	}
	if x.span == nil || !x.entry.Class.ReadsBody() || x.admission != nil {
		return nil, errProtocol
	}
	body := b.GetBody()
	var flaw *memproxy.Flaw
	if int64(len(body)) > x.b.MaxBody {
		flaw, body = frontend.TooLarge(x.b.MaxBody), nil // recorded without a hash, as at the HTTP listener
	} else {
		x.entry.CheckBody(body)
	}
	if flaw == nil && x.room(body) != nil {
		flaw, body = frontend.Busy(), nil
	}
	c := x.rule(body, flaw)
	if c.instead == nil && x.admission.Changed {
		c.body = replaceBody(x.admission.Body)
	}
	return c, nil
}

// rule passes the request through the gate. It returns the changes of the request's
// headers, or the answer in place of the backend's.
func (x *exchange) rule(body []byte, flaw *memproxy.Flaw) *change {
	m, refusal := x.admit(body, flaw)
	if refusal != nil {
		return refusal
	}
	return cmp.Or(x.answer.replyToHead(), &change{headers: m})
}

// room reserves the memory for a body and for reading it.
func (x *exchange) room(body []byte) error {
	n := int64(len(body))
	if err := x.entry.Lease.Grow(x.ctx, n); err != nil {
		return err
	}
	return x.entry.Lease.Work(x.ctx, frontend.BodyCost*n)
}

// requestTrailers ends a request and removes its trailers, because no rule has checked
// them. A request with trailers and without a body is refused.
func (x *exchange) requestTrailers(t *procv3.HttpTrailers) (*change, error) {
	if x.span == nil {
		return nil, errProtocol
	}
	if x.entry.Class.ReadsBody() && x.admission == nil {
		// The headers can no longer be changed, so even a harmless request could not be
		// forwarded correctly.
		_, refusal := x.admit(nil, &memproxy.Flaw{
			Code: memproxy.PayloadMalformed, Status: http.StatusBadRequest, Detail: "the request has trailers but no body",
		})
		if refusal != nil {
			return refusal, nil
		}
	}
	return removeTrailers(t), nil
}

// admit passes the request through the gate. It returns the changes of the request's
// headers, or a refusal.
func (x *exchange) admit(body []byte, flaw *memproxy.Flaw) (*headerMutation, *change) {
	a := x.entry.Admit(x.ctx, body, flaw)
	x.admission = a
	if reply, refused := x.perform(a, a.Next); refused {
		return nil, x.reply(reply)
	}
	x.forwarded, x.forward = x.p.opt.Tracer.Start(x.ctx, signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	return x.outgoing(a), nil
}

// perform carries out the gate's next action, as far as a filter of single requests can.
// Only the HTTP listener can gate the individual calls of an agent's run, or change its
// tools.
func (x *exchange) perform(a *gate.Admission, next gate.Next) (reply memproxy.Reply, refused bool) {
	switch next := next.(type) {
	case gate.Reply:
		return next.Reply, true
	case gate.Resume:
		if reply, refused := x.p.opt.Gate.Agents().RefuseByNameStream(x.ctx, a); refused {
			return reply, true
		}
		return x.perform(a, next.Else)
	case gate.Probe:
		if x.p.opt.Gate.Agents().Probe(x.ctx, a, next) == nil {
			return memproxy.Reply{}, false
		}
	case gate.Forward:
		return memproxy.Reply{}, false
	}
	return x.p.opt.Gate.Agents().RuleUngated(x.ctx, a, true)
}

// reply answers a request in place of the backend. Envoy then closes the stream.
func (x *exchange) reply(reply memproxy.Reply) *change {
	x.settled, x.over, x.status = true, true, reply.Status
	if x.admission == nil { // it is not ruled on
		return immediate(reply, &memproxy.Decision{})
	}
	return immediate(reply, x.admission.Shown())
}

func (x *exchange) outgoing(a *gate.Admission) *headerMutation {
	out := x.b.AdmittedHeaders(http.Header(x.req.credentials.Header), a)
	if a.Changed {
		frontend.DropDigests(out)
		out.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	path := x.req.forwarded
	if a.Query != x.req.Query {
		path = x.req.EscapedPath
		if a.Query != "" {
			path += "?" + a.Query
		}
	}
	x.setPath(out, path)
	x.p.opt.Propagator.Inject(x.forwarded, propagation.HeaderCarrier(out))
	return changes(x.req.credentials.Header, out)
}

// setPath has Envoy send a path and query, if they are not those that the client wrote.
func (x *exchange) setPath(out http.Header, path string) {
	if path != x.req.target {
		out[":path"] = []string{path}
	}
}
