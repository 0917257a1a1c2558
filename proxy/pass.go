package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// pass rules on a request that touches no memory by its head. Both bodies are streamed,
// byte for byte, except answers with members: those are read, and members without a
// claim are removed.
func (p *Proxy) pass(w *statusWriter, r *http.Request, e *face.Entry) *gate.Admission {
	var flaw *memproxy.Malformed
	rest, held := r.Body, int64(0)
	switch {
	case !e.Identify(r.Context()):
		drain(r)
	case !accept(w, r, e):
	case e.Course.Fields && e.Course.Flaw == nil:
		body, more, unread := takeBody(w, r, p.opt.MaxBody)
		e.Read(body)
		flaw = unread
		if rest = io.NopCloser(bytes.NewReader(body)); more != nil { // shadow mode still forwards it
			rest = io.NopCloser(more)
		}
		held = int64(len(body))
	}
	a := e.Admit(r.Context(), nil, flaw)
	w.lease.Keep(held)
	decided(w, r, a)
	if a.Reply != nil {
		p.write(w, *a.Reply, nil, a)
		return a
	}
	ctx, span := p.opt.Tracer.Start(r.Context(), signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	out := passed(p.opt.Upstream, r, a.Query, rest, a.Inspect)
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
		p.abandon(w, r, a, unsent(err))
		return a
	}
	defer resp.Body.Close()
	relocate(resp, p.opt.Upstream)
	if !a.Inspect {
		if a.ErrorsByStatus && resp.StatusCode >= http.StatusBadRequest {
			p.opt.Gate.Streamed(context.WithoutCancel(on), a, resp.StatusCode, memproxy.StreamWhole)
			p.write(w, face.Failed(resp.StatusCode), nil, a)
			return a
		}
		p.stream(on, w, resp, a)
		return a
	}
	body, decoded, err := whole(on, w, resp, a, p.opt.MaxAnswer)
	if err != nil {
		p.abandon(w, r, a, err)
		return a
	}
	p.answer(on, w, resp, a, body, decoded)
	return a
}

// passed returns the upstream request with a streamed body. Plain requests an answer
// without compression.
func passed(upstream *url.URL, r *http.Request, query string, body io.ReadCloser, plain bool) *http.Request {
	out := onward(upstream, r, query, plain)
	if r.ContentLength != 0 {
		out.Body, out.ContentLength = body, r.ContentLength
	}
	return out
}

// onward returns a request to the backend, without its body.
func onward(upstream *url.URL, r *http.Request, query string, plain bool) *http.Request {
	out := &http.Request{Method: r.Method, URL: target(upstream, r.URL, query), Header: make(http.Header, len(r.Header)+2)}
	face.Onward(out.Header, r.Header)
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		// The transport would send such a request again if its connection breaks. It
		// looks for the name in canonical form only.
		if values, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = values
		}
	}
	if _, ok := r.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // or the transport adds one
	}
	if plain {
		out.Header["Accept-Encoding"] = []string{"identity"}
	}
	return out
}
