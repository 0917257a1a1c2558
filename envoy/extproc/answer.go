package extproc

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
)

// errUnruled says that Envoy let a request pass that was not ruled on.
var errUnruled = errors.New("the backend answers a request that was never ruled on")

// responseHeaders decides whether the answer must be read before it is passed
// on.
func (x *exchange) responseHeaders(h *procv3.HttpHeaders, a attrs) (*response, error) {
	if x.span == nil && !a.fromUpstream() {
		x.over = true // Envoy refused the request before any filter saw it
		return onResponseHeaders(nil), nil
	}
	pseudo, header := headers(h.GetHeaders())
	code, err := strconv.Atoi(pseudo[":status"])
	if err != nil {
		return nil, errProtocol
	}
	x.answer.Header = header
	switch x.entry.Course.Way {
	case face.Preflight:
		if !x.over {
			return x.permission(code, header), nil
		}
	case face.Open:
		if x.status = code; code < http.StatusOK { // a change of protocol is no answer
			x.over = true
			return immediate(memproxy.Reply{Status: http.StatusBadGateway}, &memproxy.Decision{}), nil
		}
		if x.public && !h.GetEndOfStream() {
			return onResponseHeaders(nil), nil
		}
		if x.byStatus && code >= http.StatusBadRequest {
			x.over = true
			return immediate(face.Failed(code), &memproxy.Decision{}), nil
		}
		return x.unread(h.GetEndOfStream()), nil
	}
	if !x.ruled || x.settled {
		return nil, errProtocol
	}
	if x.admission == nil {
		return x.cutShort(a)
	}
	x.arrived()
	if !a.fromUpstream() || code < http.StatusOK {
		return x.abandon(code), nil // a change of protocol is no answer
	}
	x.status = code
	x.answer = memproxy.Reply{Status: code, Header: header}
	adm := x.admission
	switch {
	case !adm.Inspect:
		x.p.opt.Gate.Streamed(context.WithoutCancel(x.forwarded), adm, code, memproxy.StreamWhole)
		if adm.ErrorsByStatus && code >= http.StatusBadRequest {
			return x.refused(face.Failed(code)), nil
		}
		return x.unread(h.GetEndOfStream()), nil
	case x.req.Method == http.MethodHead: // nobody could be asked for what may be seen of it
		return x.abandon(http.StatusBadGateway), nil
	case adm.Streams() && face.EventStream(http.Header(header)):
		return x.streamed(h.GetEndOfStream()), nil
	case h.GetEndOfStream():
		body, changed, refusal := x.returned(nil)
		if refusal != nil {
			return refusal, nil
		}
		if changed && len(body) > 0 {
			return x.abandon(http.StatusBadGateway), nil // nothing cannot become something
		}
		x.over = true
		return onResponseHeaders(x.incoming()), nil
	}
	if n, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && n > x.b.MaxAnswer {
		return x.abandon(http.StatusBadGateway), nil
	}
	return onResponseHeaders(nil), nil
}

// permission answers a preflight: with what the browser may send, and without
// a body.
func (x *exchange) permission(code int, h memproxy.Header) *response {
	reply := memproxy.Reply{Status: face.PermissionStatus(code), Header: memproxy.Header{}}
	face.Permission(http.Header(reply.Header), http.Header(h))
	x.over, x.status = true, reply.Status
	return immediate(reply, &memproxy.Decision{})
}

// cutShort refuses a request that Envoy answers itself, because its body was
// larger than Envoy's buffer or did not come.
func (x *exchange) cutShort(a attrs) (*response, error) {
	if a.fromUpstream() {
		return nil, errUnruled
	}
	flaw := face.TooSlow()
	if a.oversize() {
		flaw = face.TooLarge(x.b.MaxBody)
	}
	_, refusal := x.admit(nil, flaw)
	if refusal == nil {
		// Not even in shadow mode can half a body be forwarded.
		d := x.admission.Decision
		d.Verdict, d.Status = memproxy.Deny, flaw.Status
		refusal = x.refused(x.b.Adapter.Refuse(x.req.Request, d.Shown()))
	}
	return refusal, nil
}

// busy stands in a status's place: there was no room for the answer.
const busy = -1

// retry adds when to try again.
func retry(h memproxy.Header) memproxy.Header {
	out := memproxy.Header{"Retry-After": {"1"}}
	maps.Copy(out, h)
	return out
}

// abandon answers for a backend that did not, and has the outcome noted.
func (x *exchange) abandon(code int) *response {
	x.p.opt.Log.WarnContext(x.ctx, "upstream did not answer", "backend", x.b.Name, "decision", x.admission.Decision.ID)
	reply := x.p.opt.Gate.Abandon(context.WithoutCancel(x.forwarded), x.admission, memproxy.StreamWhole)
	switch code {
	case http.StatusGatewayTimeout:
		reply.Status = code
	case busy:
		reply.Status = http.StatusServiceUnavailable
		reply.Header = retry(reply.Header)
	}
	return x.refused(reply)
}

// responseBody passes a whole answer through the gate, or a piece of a stream.
func (x *exchange) responseBody(b *procv3.HttpBody) (*response, error) {
	if x.events != nil && !x.settled {
		return x.piece(b)
	}
	if x.passing { // Envoy lets no mode be overridden
		x.over = b.GetEndOfStream()
		return onResponseBody(nil, nil, false), nil
	}
	if x.public {
		return x.publish(b), nil
	}
	if x.settled || x.admission == nil || x.answer.Status == 0 {
		return nil, errProtocol
	}
	body := b.GetBody()
	x.hold(body)
	defer x.entry.Lease.Done()
	if !x.admission.Writes() && x.readable(body) != nil {
		return x.abandon(busy), nil
	}
	plain, decoded, err := face.Plain(body, strings.Join(x.answer.Header["Content-Encoding"], ","), x.b.MaxAnswer)
	if err != nil {
		return x.abandon(http.StatusBadGateway), nil
	}
	got, changed, refusal := x.returned(plain)
	if refusal != nil {
		return refusal, nil
	}
	x.over = b.GetEndOfStream() // else trailers follow
	return x.rewritten(x.incoming(), got, changed || decoded), nil
}

// rewritten passes an answer on that was read, with what became of it.
func (x *exchange) rewritten(m *mutation, body []byte, changed bool) *response {
	if media := x.answer.Header.Get("Content-Type"); media != x.media {
		m.set("Content-Type", x.media)
	}
	if !changed {
		return onResponseBody(m, nil, false)
	}
	m.changed(x.answer.Header)
	m.length(len(body))
	return onResponseBody(m, body, true)
}

// hold counts an answer that is here. What came of a write must be known; for
// what came of a read there must be room.
func (x *exchange) hold(answer []byte) {
	if x.admission.Writes() {
		x.entry.Lease.Force(int64(len(answer)))
	}
}

// readable takes what an answer and filtering it need.
func (x *exchange) readable(answer []byte) error {
	if err := x.entry.Lease.Grow(x.forwarded, int64(len(answer))); err != nil {
		return err
	}
	return x.entry.Lease.Work(x.forwarded, face.AnswerCost*int64(len(answer)))
}

// responseTrailers ends an answer; one that had no body is settled here.
func (x *exchange) responseTrailers(t *procv3.HttpTrailers) (*response, error) {
	switch {
	case x.admission == nil || x.settled || x.answer.Status == 0:
	case x.events != nil:
		x.ended(memproxy.StreamWhole)
	default:
		if _, _, refusal := x.returned(nil); refusal != nil {
			return refusal, nil
		}
	}
	x.over = true
	_, trailers := headers(t.GetTrailers())
	return onResponseTrailers(trailers), nil
}

// returned takes an answer through the gate. A refusal stands in its place.
func (x *exchange) returned(body []byte) (out []byte, changed bool, refusal *response) {
	x.answer.Body = body
	got := x.p.opt.Gate.Return(context.WithoutCancel(x.forwarded), x.admission, x.answer)
	if got.Status != x.answer.Status || x.admission.Answered != nil {
		return nil, false, x.refused(got)
	}
	x.b.follower.Follow(x.admission)
	x.settled, x.media = true, got.Header.Get("Content-Type")
	return got.Body, !face.SameBytes(got.Body, body), nil
}

// incoming are the changes of an answer's headers that every answer gets.
func (x *exchange) incoming() *mutation {
	m := x.backward()
	m.set(face.DecisionHeader, face.Decision(x.admission.Shown()))
	if !x.admission.Shadow() {
		m.uncached(x.answer.Header)
	}
	face.Listed(x.admission, m.set)
	return m
}

// backward are the changes of an answer's headers on every route.
func (x *exchange) backward() *mutation {
	var m mutation
	h := x.answer.Header
	if to, ok := face.Relocated(h.Get("Location"), x.b.Upstream); ok {
		h["Location"] = []string{to}
		m.set("Location", to)
	}
	m.strip(face.Unanswered(h, func(names []string) bool {
		return x.p.opt.Gate.Headers(x.ctx, x.admission, x.b.Name, names)
	}))
	return &m
}
