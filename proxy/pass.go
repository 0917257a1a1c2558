package proxy

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// preflightTimeout bounds what a browser's question takes.
const preflightTimeout = 10 * time.Second

// pass takes a request that touches no memory through the gate by its head.
// Both bodies stream, byte for byte, but for answers that have members: those
// are read, and what no row claims is left out.
func (p *Proxy) pass(w *statusWriter, r *http.Request, req memproxy.Request, course *face.Course, creds memproxy.Credentials) *gate.Admission {
	var flaw *memproxy.Malformed
	rest, held := r.Body, int64(0)
	call := gate.Call{Backend: p.backend, Credentials: creds, Peer: face.Peer(r.RemoteAddr), Session: face.Session(req.Header), Passed: true}
	switch {
	case !p.opt.Gate.Identify(r.Context(), &call):
		drain(r)
	case !accept(w, r, &call, course):
	case course.Fields && course.Flaw == nil:
		body, more, unread := p.takeBody(w, r)
		if course.Flaw = course.Body(req, body); course.Flaw == nil {
			flaw = unread
		}
		if rest = io.NopCloser(bytes.NewReader(body)); more != nil { // shadow mode forwards it all the same
			rest = io.NopCloser(more)
		}
		held = int64(len(body))
	}
	req, wishes, wrong := gate.Asked(req)
	if flaw == nil {
		flaw = wrong
	}
	call.Request, call.Flaw, call.Wishes = req, flaw, wishes
	a := p.opt.Gate.Admit(r.Context(), course.Call(call))
	leaseOf(w).Done()
	leaseOf(w).Keep(held)
	p.log(r.Context(), a, course.Route.ID)
	p.dawdle(r.Context(), a)
	decided(w, a)
	if a.Reply != nil {
		p.write(w, *a.Reply, nil, a)
		return a
	}
	ctx, span := p.opt.Tracer.Start(r.Context(), signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	out := p.passed(r, a.Query, rest, a.Inspect)
	out.Method = face.Asks(r.Method, a)
	on, cancel := p.upstreamContext(ctx, a)
	defer cancel()
	if a.Principal.ID != "" {
		p.opt.Credential.Present(out.Header)
	} else {
		p.opt.Credential.Conceal(out.Header)
	}
	p.opt.Propagator.Inject(on, propagation.HeaderCarrier(out.Header))
	resp, err := passOn(p.opt.PassTransport, on, out)
	if err != nil {
		p.abandon(w, r, a, err)
		return a
	}
	defer resp.Body.Close()
	p.relocate(resp)
	if !a.Inspect {
		if a.ErrorsByStatus && resp.StatusCode >= http.StatusBadRequest {
			p.opt.Gate.Streamed(context.WithoutCancel(on), a, resp.StatusCode, memproxy.StreamWhole)
			p.write(w, face.Failed(resp.StatusCode), nil, a)
			return a
		}
		p.stream(on, w, resp, a)
		return a
	}
	body, decoded, err := p.whole(on, w, resp, a)
	if err != nil {
		p.abandon(w, r, a, err)
		return a
	}
	p.answer(on, w, resp, a, body, decoded)
	return a
}

// open forwards a request for a public route. The backend's own credential is
// lent to callers that are known, and with one of its own what others present
// does not go there: it is meant for memproxy.
func (p *Proxy) open(w *statusWriter, r *http.Request, rt memproxy.Route, creds memproxy.Credentials) {
	inspect, byStatus := p.opt.Gate.InspectsPublic(p.backend, rt)
	inspect = inspect && r.Method != http.MethodHead
	out := p.passed(r, r.URL.RawQuery, r.Body, inspect)
	if p.opt.Credential != nil && p.opt.Gate.Knows(r.Context(), creds) {
		p.opt.Credential.Present(out.Header)
	} else {
		p.opt.Credential.Conceal(out.Header)
	}
	on, cancel := p.upstreamContext(r.Context(), nil)
	defer cancel()
	resp, err := passOn(p.opt.PassTransport, on, out)
	if err != nil {
		p.gone(w, r, err)
		return
	}
	defer resp.Body.Close()
	p.relocate(resp)
	switch {
	case inspect:
		p.opened(on, w, r, rt, resp)
		return
	case byStatus && resp.StatusCode >= http.StatusBadRequest:
		p.write(w, face.Failed(resp.StatusCode), nil, nil)
		return
	}
	p.stream(on, w, resp, nil)
}

// opened passes a public route's answer on without what no row claims.
func (p *Proxy) opened(ctx context.Context, w *statusWriter, r *http.Request, rt memproxy.Route, resp *http.Response) {
	body, decoded, err := face.ReadAnswerIn(resp, face.MaxPublic, func(n int64) error { return w.lease.Grow(ctx, n) })
	reply := memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: body}
	if err == nil {
		reply, err = p.opt.Gate.Public(ctx, p.backend, rt, reply)
	}
	if err != nil {
		p.gone(w, r, err)
		return
	}
	if decoded || !sameBytes(reply.Body, body) {
		reply.Header = maps.Clone(reply.Header)
		dropEntityHeaders(http.Header(reply.Header))
	}
	p.write(w, reply, http.Header(reply.Header), nil)
}

// preflight has the backend answer what a browser may send. It is asked that
// and nothing else, and its answer is that and nothing else.
func (p *Proxy) preflight(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), preflightTimeout)
	defer cancel()
	out := &http.Request{Method: http.MethodOptions, URL: p.target(r.URL, r.URL.RawQuery), Header: http.Header{"User-Agent": nil}}
	face.Question(out.Header, r.Header)
	resp, err := p.opt.PassTransport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		p.gone(w, r, err)
		return
	}
	_ = resp.Body.Close()
	face.Permission(w.Header(), resp.Header)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(face.PermissionStatus(resp.StatusCode))
}

// passed is a request whose body goes on as it comes. Plain asks for an answer
// that is not compressed.
func (p *Proxy) passed(r *http.Request, query string, body io.ReadCloser, plain bool) *http.Request {
	out := &http.Request{Method: r.Method, URL: p.target(r.URL, query), Header: make(http.Header, len(r.Header)+2)}
	face.Onward(out.Header, r.Header)
	if _, ok := r.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // or the transport adds one
	}
	if plain {
		out.Header["Accept-Encoding"] = []string{"identity"}
	}
	if r.ContentLength != 0 {
		out.Body, out.ContentLength = body, r.ContentLength
	}
	return out
}

// gone answers for a backend that did not, where nothing was admitted.
func (p *Proxy) gone(w http.ResponseWriter, r *http.Request, err error) {
	p.opt.Log.WarnContext(r.Context(), "upstream did not answer", "backend", p.opt.Name, "error", err)
	p.write(w, face.Gone(), nil, nil)
}
