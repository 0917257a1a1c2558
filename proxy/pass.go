package proxy

import (
	"bytes"
	"context"
	"io"
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
// Both bodies stream, byte for byte.
func (p *Proxy) pass(w *statusWriter, r *http.Request, req memproxy.Request, course *face.Course, creds memproxy.Credentials) *gate.Admission {
	var flaw *memproxy.Malformed
	rest := r.Body
	call := gate.Call{Backend: p.backend, Credentials: creds, Peer: face.Peer(r.RemoteAddr), Session: face.Session(req.Header), Passed: true}
	switch {
	case !p.opt.Gate.Identify(r.Context(), &call):
		drain(w, r)
	case course.Form:
		leaseOf(w).By(call.Caller())
		body, _, unread := p.takeBody(w, r)
		if flaw = unread; flaw == nil {
			flaw = face.FormOverrides(req.Header, body)
		}
		course.Flaw = flaw
		rest = io.NopCloser(bytes.NewReader(body))
	}
	req, wishes, wrong := gate.Asked(req)
	if flaw == nil {
		flaw = wrong
	}
	call.Request, call.Flaw, call.Wishes = req, flaw, wishes
	a := p.opt.Gate.Admit(r.Context(), course.Call(call))
	leaseOf(w).Release()
	p.log(r.Context(), a, course.Route.ID)
	p.dawdle(r.Context(), a)
	w.Header().Set(face.DecisionHeader, face.Decision(&a.Decision))
	if a.Reply != nil {
		p.write(w, *a.Reply, nil, a)
		return a
	}
	ctx, span := p.opt.Tracer.Start(r.Context(), signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	out := p.passed(r, a.Query, rest)
	if a.Principal.ID != "" {
		p.opt.Credential.Present(out.Header)
	} else {
		p.opt.Credential.Conceal(out.Header)
	}
	p.opt.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	resp, err := p.opt.PassTransport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		p.abandon(w, r, a, err)
		return a
	}
	defer resp.Body.Close()
	p.relocate(resp)
	w.torn = p.stream(w, resp, a)
	p.opt.Gate.Streamed(context.WithoutCancel(ctx), a, resp.StatusCode, w.torn)
	return a
}

// open forwards a request for a public route. The backend's own credential is
// lent to callers that are known, and with one of its own what others present
// does not go there: it is meant for memproxy.
func (p *Proxy) open(w *statusWriter, r *http.Request, creds memproxy.Credentials) {
	out := p.passed(r, r.URL.RawQuery, r.Body)
	if p.opt.Credential != nil && p.opt.Gate.Knows(r.Context(), creds) {
		p.opt.Credential.Present(out.Header)
	} else {
		p.opt.Credential.Conceal(out.Header)
	}
	resp, err := p.opt.PassTransport.RoundTrip(out.WithContext(r.Context()))
	if err != nil {
		p.gone(w, r, err)
		return
	}
	defer resp.Body.Close()
	p.relocate(resp)
	w.torn = p.stream(w, resp, nil)
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

// passed is a request whose body goes on as it comes.
func (p *Proxy) passed(r *http.Request, query string, body io.ReadCloser) *http.Request {
	out := &http.Request{Method: r.Method, URL: p.target(r.URL, query), Header: make(http.Header, len(r.Header)+2)}
	face.Onward(out.Header, r.Header)
	if _, ok := r.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // or the transport adds one
	}
	if r.ContentLength != 0 {
		out.Body, out.ContentLength = body, r.ContentLength
	}
	return out
}

// gone answers for a backend that did not, where nothing was admitted.
func (p *Proxy) gone(w http.ResponseWriter, r *http.Request, err error) {
	p.opt.Log.WarnContext(r.Context(), "upstream did not answer", "backend", p.opt.Name, "error", err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = w.Write([]byte(`{"detail":"the backend did not answer","code":"memproxy_upstream"}`))
}
