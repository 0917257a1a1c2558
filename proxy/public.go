package proxy

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
)

// preflightTimeout bounds a CORS preflight.
const preflightTimeout = 10 * time.Second

// public is a request that is not ruled on: for a public route, or a browser's
// preflight.
type public struct {
	p *Proxy
	w *statusWriter
	r *http.Request
}

// open forwards a request for a public route. If the backend has a credential of
// its own, identified callers are sent with it, and the credentials of all others
// are removed, because they are meant for memproxy.
func (o public) open(rt memproxy.Route, creds memproxy.Credentials) {
	p, w, r := o.p, o.w, o.r
	inspect, byStatus := p.opt.Gate.InspectsPublic(p.backend, rt)
	inspect = inspect && r.Method != http.MethodHead
	out := passed(p.opt.Upstream, r, r.URL.RawQuery, r.Body, inspect)
	if p.opt.Credential != nil && p.opt.Gate.Knows(r.Context(), creds) {
		p.opt.Credential.Present(out.Header)
	} else {
		p.opt.Credential.Conceal(out.Header)
	}
	on, cancel := p.upstreamContext(r.Context(), nil)
	defer cancel()
	resp, err := passOn(p.opt.PassTransport, on, out)
	if err != nil {
		o.gone(err)
		return
	}
	defer resp.Body.Close()
	relocate(resp, p.opt.Upstream)
	switch {
	case inspect:
		o.opened(on, rt, resp)
		return
	case byStatus && resp.StatusCode >= http.StatusBadRequest:
		p.write(w, face.Failed(resp.StatusCode), nil, nil)
		return
	}
	p.stream(on, w, resp, nil)
}

// opened passes on a public route's answer without members that have no claim.
func (o public) opened(ctx context.Context, rt memproxy.Route, resp *http.Response) {
	p, w := o.p, o.w
	body, decoded, err := face.ReadAnswer(resp, face.MaxPublic, func(n int64) error { return w.lease.Grow(ctx, n) })
	reply := memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: body}
	if err == nil {
		reply, err = p.opt.Gate.Public(ctx, p.backend, rt, reply)
	}
	if err != nil {
		o.gone(err)
		return
	}
	if decoded || !face.SameBytes(reply.Body, body) {
		reply.Header = maps.Clone(reply.Header)
		face.DropEntityHeaders(http.Header(reply.Header))
	}
	p.write(w, reply, http.Header(reply.Header), nil)
}

// preflight forwards a CORS preflight: only its CORS headers are sent, and only
// those of its answer are returned.
func (o public) preflight() {
	p, w, r := o.p, o.w, o.r
	ctx, cancel := context.WithTimeout(r.Context(), preflightTimeout)
	defer cancel()
	out := &http.Request{Method: http.MethodOptions, URL: target(p.opt.Upstream, r.URL, r.URL.RawQuery), Header: http.Header{"User-Agent": nil}}
	face.Question(out.Header, r.Header)
	resp, err := p.opt.PassTransport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		o.gone(err)
		return
	}
	_ = resp.Body.Close()
	face.Permission(w.Header(), resp.Header)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(face.PermissionStatus(resp.StatusCode))
}

// gone answers if the backend did not and there is no admission.
func (o public) gone(err error) {
	p := o.p
	p.opt.Log.WarnContext(o.r.Context(), "upstream did not answer", "backend", p.opt.Name, "error", err)
	p.write(o.w, face.Gone(), nil, nil)
}
