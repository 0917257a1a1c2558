package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// preflightTimeout is the timeout of a CORS preflight.
const preflightTimeout = 10 * time.Second

// public serves requests that are not ruled on: public routes, and browsers' CORS
// preflights.
type public struct{ *Proxy }

// open forwards a request on a public route. If the backend has its own credential, it is
// sent for identified callers. The credentials of all other callers are removed, because
// they are meant for memproxy.
func (p public) open(w *answerWriter, r *http.Request, rt memproxy.Route, creds memproxy.Credentials) {
	inspect, byStatus := p.opt.Gate.InspectsPublic(p.backend, rt)
	inspect = inspect && r.Method != http.MethodHead
	known := p.opt.Credential != nil && p.opt.Gate.Knows(r.Context(), creds)
	on, cancel := p.upstreamContext(r.Context(), nil)
	defer cancel()
	resp, err := p.opt.PassTransport.RoundTrip(p.upstreamRequest(on, r, r.URL.RawQuery, p.opt.RequestHeaders(r.Header, inspect, known)))
	if err != nil {
		p.answerUnreachable(w, r, err)
		return
	}
	defer resp.Body.Close()
	frontend.RewriteLocation(resp.Header, p.opt.Upstream, r.Header)
	switch {
	case frontend.LeadsAway(on, p.opt.Gate, nil, resp.StatusCode, resp.Header):
		w.reply(frontend.AwayReply())
		return
	case byStatus && resp.StatusCode >= http.StatusBadRequest && !inspect:
		w.reply(frontend.Failed(resp.StatusCode))
		return
	case !inspect:
		p.stream(on, w, resp, nil)
		return
	}
	body, decoded, err := frontend.ReadAnswer(resp, frontend.MaxPublic, func(n int64) error { return w.lease.Grow(on, n) })
	reply := memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: body}
	if err != nil && frontend.AnswerFlaw(err, frontend.MaxPublic) == nil {
		p.answerUnreachable(w, r, err) // it broke off
		return
	}
	if err == nil {
		reply, err = p.opt.Gate.Public(on, p.backend, rt, reply)
	}
	if err != nil {
		p.opt.Log.WarnContext(r.Context(), "the response is withheld", "backend", p.opt.Name, "route", rt.ID, "error", err)
		w.reply(frontend.UnreadableReply())
		return
	}
	p.passOn(w, reply, decoded || !frontend.SameBytes(reply.Body, body))
}

// preflight forwards a CORS preflight. Only its CORS headers are sent, and only those of
// the answer are returned.
func (p public) preflight(w *answerWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), preflightTimeout)
	defer cancel()
	out := p.upstreamRequest(ctx, r, r.URL.RawQuery, http.Header{"User-Agent": nil})
	frontend.PreflightRequest(out.Header, r.Header)
	resp, err := p.opt.PassTransport.RoundTrip(out)
	if err != nil {
		p.answerUnreachable(w, r, err)
		return
	}
	_ = resp.Body.Close()
	frontend.PreflightResponse(w.Header(), resp.Header)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(frontend.PreflightStatus(resp.StatusCode))
}

func (p public) answerUnreachable(w *answerWriter, r *http.Request, err error) {
	p.opt.Log.WarnContext(r.Context(), "the backend did not respond", "backend", p.opt.Name, "error", err)
	w.reply(frontend.NoAnswerReply())
}
