package extproc

import (
	"net/http"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// open admits a request on a public route, which is not ruled on. If the backend has its
// own credential, it is added for identified callers.
func (x *exchange) open() *change {
	x.settled = true
	x.inspect, x.byStatus = x.p.opt.Gate.InspectsPublic(x.entry.Call.Backend, x.entry.Class.Route)
	x.inspect = x.inspect && x.req.Method != http.MethodHead
	mode := headersOnly()
	if x.inspect {
		mode = answerOnly()
	}
	known := x.b.Credential != nil && x.p.opt.Gate.Knows(x.ctx, x.req.credentials)
	has := x.req.credentials.Header
	out := x.b.RequestHeaders(http.Header(has), x.inspect, known)
	x.setPath(out, x.req.forwarded)
	return &change{headers: changes(has, out), next: mode}
}

func (x *exchange) preflight() *change {
	kept := http.Header{}
	frontend.PreflightRequest(kept, http.Header(x.req.credentials.Header))
	x.settled = true
	return &change{headers: changes(x.req.credentials.Header, kept), next: headersOnly()}
}

func (an *answer) preflightReply() *change {
	reply := memproxy.Reply{Status: frontend.PreflightStatus(an.reply.Status), Header: memproxy.Header{}}
	frontend.PreflightResponse(http.Header(reply.Header), http.Header(an.received))
	return an.x.reply(reply)
}

func (an *answer) publicHeaders(end, away bool) *change {
	x, code := an.x, an.reply.Status
	x.status = code
	switch {
	case away:
		return x.reply(frontend.AwayReply())
	case x.inspect && !end:
		return &change{}
	case x.byStatus && code >= http.StatusBadRequest:
		return x.reply(frontend.Failed(code))
	}
	return an.passUnread(end)
}

// publicBody forwards a public route's answer without its unclaimed members.
func (an *answer) publicBody(b *procv3.HttpBody) *change {
	x := an.x
	x.over = b.GetEndOfStream() // otherwise trailers follow
	plain, decoded, err := frontend.Decompress(b.GetBody(), http.Header(an.received), frontend.MaxPublic, an.grow)
	an.reply.Body = plain
	if err == nil {
		an.reply, err = x.p.opt.Gate.Public(x.ctx, x.entry.Call.Backend, x.entry.Class.Route, an.reply)
	}
	if err != nil {
		x.p.opt.Log.WarnContext(x.ctx, "the response is withheld", "backend", x.b.Name, "route", x.entry.Class.Name, "error", err)
		return x.reply(frontend.UnreadableReply())
	}
	return an.forwardRead(decoded || !frontend.SameBytes(an.reply.Body, plain))
}

// replyNoAnswer answers when the backend did not answer, and there is no admission.
func (x *exchange) replyNoAnswer() *change {
	x.p.opt.Log.WarnContext(x.ctx, "the backend did not respond", "backend", x.b.Name, "route", x.entry.Class.Name)
	return x.reply(frontend.NoAnswerReply())
}
