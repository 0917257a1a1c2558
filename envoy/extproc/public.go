package extproc

import (
	"bytes"
	"net/http"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
)

// public is a request that is not ruled on: for a public route, or a browser's
// preflight.
type public struct {
	x *exchange
	// inspect is set if members of the answer must be claimed, byStatus if an error is
	// reduced to its status.
	inspect, byStatus bool
}

// open admits a request for a public route. If the backend has a credential of its
// own, it is added for identified callers.
func (o *public) open() *response {
	x := o.x
	var m mutation
	m.strip(face.Withheld(x.req.credentials.Header))
	if x.b.Credential != nil {
		if x.p.opt.Gate.Knows(x.ctx, x.req.credentials) {
			m.present(x.b.Credential, x.req.Header)
		} else {
			m.conceal(x.req.Header)
		}
	}
	x.settled = true
	mode := headersOnly()
	o.inspect, o.byStatus = x.p.opt.Gate.InspectsPublic(x.b.gate, x.entry.Course.Route)
	if o.inspect = o.inspect && x.req.Method != http.MethodHead; o.inspect {
		m.set("Accept-Encoding", "identity")
		mode = answerOnly()
	}
	return onRequestHeaders(&m, mode)
}

// preflight forwards a CORS preflight, with its CORS headers only.
func (o *public) preflight() *response {
	x := o.x
	kept := http.Header{}
	face.Question(kept, http.Header(x.req.credentials.Header))
	var m mutation
	for name := range x.req.credentials.Header {
		if _, ok := kept[name]; !ok {
			m.remove(name)
		}
	}
	x.settled = true
	return onRequestHeaders(&m, headersOnly())
}

// permission answers a CORS preflight, without a body.
func (o *public) permission(code int, h memproxy.Header) *response {
	reply := memproxy.Reply{Status: face.PermissionStatus(code), Header: memproxy.Header{}}
	face.Permission(http.Header(reply.Header), http.Header(h))
	o.x.over, o.x.status = true, reply.Status
	return immediate(reply, &memproxy.Decision{})
}

// headers handles the head of a public route's answer.
func (o *public) headers(code int, end bool) *response {
	x := o.x
	x.status = code
	switch {
	case code < http.StatusOK: // a change of protocol is not an answer
		x.over = true
		return immediate(memproxy.Reply{Status: http.StatusBadGateway}, &memproxy.Decision{})
	case o.inspect && !end:
		return onResponseHeaders(nil)
	case o.byStatus && code >= http.StatusBadRequest:
		x.over = true
		return immediate(face.Failed(code), &memproxy.Decision{})
	}
	return x.answer.unread(end)
}

// publish passes on a public route's answer without members that have no claim.
func (o *public) publish(b *procv3.HttpBody) *response {
	x := o.x
	x.over = b.GetEndOfStream() // else trailers follow
	body := b.GetBody()
	plain, decoded, err := face.Plain(body, http.Header(x.answer.reply.Header), face.MaxPublic)
	reply := memproxy.Reply{Status: x.status, Header: x.answer.reply.Header, Body: plain}
	if err == nil {
		reply, err = x.p.opt.Gate.Public(x.ctx, x.b.gate, x.entry.Course.Route, reply)
	}
	if err != nil {
		x.p.opt.Log.WarnContext(x.ctx, "answer withheld", "backend", x.b.Name, "route", x.entry.Course.Name, "error", err)
		x.over, x.status = true, http.StatusBadGateway
		return immediate(face.Gone(), &memproxy.Decision{})
	}
	x.answer.media = reply.Header.Get("Content-Type")
	return x.answer.rewritten(x.answer.backward(), reply.Body, decoded || !bytes.Equal(reply.Body, plain))
}
