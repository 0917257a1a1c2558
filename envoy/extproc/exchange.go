package extproc

import (
	"context"
	"net/http"
	"time"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// exchange is one request on its way through Envoy and, if it comes to that,
// its answer. Envoy's messages come one at a time.
type exchange struct {
	p     *Processor
	b     *Backend
	begun time.Time

	ctx  context.Context // of the server span
	span trace.Span
	req  request
	name string // of the route, for spans and metrics

	route memproxy.Route
	known bool
	gated bool

	admission *gate.Admission
	forwarded context.Context // of the forward span, while the backend is asked
	forward   trace.Span
	settled   bool // the outcome is noted, or there will be none
	watching  bool
	body      []byte // gathered in observability mode
	flaw      *memproxy.Malformed

	answer memproxy.Reply // the head of an answer whose body is waited for
	status int
	over   bool // nothing more is wanted of Envoy
}

// begin reads the head of the request and finds its route.
func (x *exchange) begin(ctx context.Context, h *procv3.HttpHeaders, a attrs) error {
	if x.span != nil {
		return errProtocol
	}
	pseudo, header := headers(h.GetHeaders())
	x.start(ctx, describe(pseudo, header, a.peer()))
	return nil
}

// start finds the route of a request, and whether it goes through the gate.
func (x *exchange) start(ctx context.Context, r request) {
	x.begun, x.req = x.p.opt.Clock(), r
	x.route, x.known = x.b.Adapter.Route(r.Request)
	x.name = x.route.ID
	if !x.known {
		x.name, x.route = "unknown", memproxy.Route{Kind: memproxy.Other}
	}
	ctx = x.p.opt.Propagator.Extract(ctx, client{r.Header})
	x.ctx, x.span = x.p.opt.Tracer.Start(ctx, signal.SpanServer+x.name, trace.WithSpanKind(trace.SpanKindServer))
	switch {
	case r.flaw != nil:
		x.gated = true
	case face.Preflight(r.Method, r.Header):
		x.name = "preflight"
	case x.known && x.route.Pass:
	case !x.known && x.b.patterns.Match(r.Method, r.EscapedPath):
		x.name = "passthrough"
	default:
		x.gated = true
	}
}

// requestHeaders rules at once where no body follows, and asks for the body
// where one does.
func (x *exchange) requestHeaders(ctx context.Context, h *procv3.HttpHeaders, a attrs) (*response, error) {
	if err := x.begin(ctx, h, a); err != nil {
		return nil, err
	}
	if !x.gated {
		return x.pass(), nil
	}
	flaw := x.req.flaw
	if flaw == nil && x.req.length() > x.b.MaxBody {
		flaw = face.TooLarge(x.b.MaxBody)
	}
	if flaw == nil && !h.GetEndOfStream() {
		r := onRequestHeaders(nil)
		r.ModeOverride = wholeRequest()
		return r, nil
	}
	m, refusal := x.admit(nil, flaw)
	if refusal != nil {
		return refusal, nil
	}
	r := onRequestHeaders(m)
	if flaw != nil {
		r.ModeOverride = headersOnly() // shadow mode: what is too large is not wanted
	}
	return r, nil
}

// pass lets go of a request that touches no memory.
func (x *exchange) pass() *response {
	var m mutation
	m.strip(x.req.Header, true)
	// The credential is lent only where the route allows it, to callers that
	// the gate can identify.
	if x.known && x.route.Lend && x.name == x.route.ID && x.b.Credential != nil && x.p.opt.Gate.Knows(x.ctx, x.req.credentials) {
		m.present(x.b.Credential, x.req.Header)
	}
	r := onRequestHeaders(&m)
	r.ModeOverride = skipAll()
	x.settled, x.over = true, true
	return r
}

func (x *exchange) requestBody(b *procv3.HttpBody) (*response, error) {
	if !x.gated || x.admission != nil {
		return nil, errProtocol
	}
	body := b.GetBody()
	var flaw *memproxy.Malformed
	if int64(len(body)) > x.b.MaxBody {
		flaw = face.TooLarge(x.b.MaxBody)
	}
	m, refusal := x.admit(body, flaw)
	if refusal != nil {
		return refusal, nil
	}
	if x.admission.Changed {
		return onRequestBody(m, x.admission.Body, true), nil
	}
	return onRequestBody(m, nil, false), nil
}

// requestTrailers ends a request. One that had no body is refused here.
func (x *exchange) requestTrailers() (*response, error) {
	if !x.gated {
		return nil, errProtocol
	}
	if x.admission == nil {
		// Headers cannot be changed any more by now, so not even an innocent
		// request could go on as it should.
		_, refusal := x.admit(nil, &memproxy.Malformed{
			Code: memproxy.PayloadMalformed, Status: http.StatusBadRequest, Detail: "the request ends in trailers and has no body",
		})
		if refusal != nil {
			return refusal, nil
		}
	}
	return onRequestTrailers(), nil
}

// admit takes the request through the gate: either a refusal comes back, or
// the changes of its headers.
func (x *exchange) admit(body []byte, flaw *memproxy.Malformed) (*mutation, *response) {
	a := x.p.opt.Gate.Admit(x.ctx, x.call(body, flaw))
	x.admission = a
	x.p.log(x.ctx, a, x.b.Name)
	if a.Reply != nil {
		return nil, x.refused(*a.Reply)
	}
	if ungated(a) {
		if reply, refused := x.p.opt.Gate.Ungated(x.ctx, a); refused {
			return nil, x.refused(reply)
		}
	}
	x.forwarded, x.forward = x.p.opt.Tracer.Start(x.ctx, signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	return x.outgoing(a), nil
}

// call is the request as the gate takes it.
func (x *exchange) call(body []byte, flaw *memproxy.Malformed) *gate.Call {
	if len(body) == 0 {
		body = nil
	}
	req, wishes, wrong := gate.Asked(x.req.Request)
	if flaw == nil {
		flaw = wrong
	}
	return &gate.Call{
		Backend: x.b.gate, Credentials: x.req.credentials, Request: req, Route: x.route, Known: x.known,
		Body: body, Flaw: flaw, Session: face.Session(x.req.Header), Wishes: wishes,
		Watch: x.watching,
	}
}

// ungated reports whether an admitted request starts an agent's run that would
// have to be gated call by call, or changes the tools of one: neither can be
// done by a filter that sees one request at a time. The HTTP face can.
func ungated(a *gate.Admission) bool {
	c := a.Call()
	turner, ok := c.Backend.Adapter.(gate.Turner)
	if !ok || a.Shadow() {
		return false
	}
	if turner.Rearms(c.Route) != "" {
		return true
	}
	if !a.Runs() {
		return false
	}
	turn, err := turner.Turn(c.Route, c.Request, a.Body)
	return turn != nil || err != nil
}

// refused is the end of a request that does not go on. Envoy closes the stream.
func (x *exchange) refused(reply memproxy.Reply) *response {
	x.settled, x.over, x.status = true, true, reply.Status
	return immediate(reply, &x.admission.Decision)
}

// outgoing are the changes of an admitted request's headers.
func (x *exchange) outgoing(a *gate.Admission) *mutation {
	var m mutation
	m.strip(x.req.Header, true)
	if a.Changed {
		m.length(len(a.Body))
		for _, name := range face.Digests {
			if len(x.req.Header[name]) > 0 {
				m.remove(name)
			}
		}
	}
	path := x.req.forwarded
	if a.Query != x.req.Query {
		path = x.req.EscapedPath
		if a.Query != "" {
			path += "?" + a.Query
		}
	}
	if path != x.req.target {
		m.set(":path", path)
	}
	if a.Inspect {
		m.set("Accept-Encoding", "identity")
	}
	m.present(x.b.Credential, x.req.Header)
	x.p.opt.Propagator.Inject(x.forwarded, carrier{&m})
	return &m
}
