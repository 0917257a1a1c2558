package extproc

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// errUnruled means that Envoy forwarded a request without a ruling.
var errUnruled = errors.New("received a response to a request without a decision")

// answer is the answer of an exchange. Its head arrives first; its body is requested only
// if it must be read.
type answer struct {
	x        *exchange
	received memproxy.Header  // headers of the backend's answer
	reply    memproxy.Reply   // what the client receives
	events   *frontend.Events // set if the answer is a stream of events
	held     int64            // bytes that the lease had before the stream
	// passing is set if the body is forwarded without being read.
	passing bool
}

// headers decides whether the body must be read before the answer is forwarded.
func (an *answer) headers(h *procv3.HttpHeaders, a attrs) (*change, error) {
	x := an.x
	if x.span == nil && !a.fromUpstream() {
		x.over = true // Envoy refused the request before any filter saw it
		return &change{}, nil
	}
	pseudo, header := headers(h.GetHeaders())
	code, err := strconv.Atoi(pseudo[":status"])
	if err != nil {
		return nil, errProtocol
	}
	an.received, an.reply = header, memproxy.Reply{Status: code, Header: maps.Clone(header)}
	an.relocate(an.reply.Header)
	away := frontend.LeadsAway(x.ctx, x.p.opt.Gate, x.admission, code, http.Header(an.reply.Header))
	switch {
	case x.span == nil, x.over:
		return nil, errProtocol
	case !x.entry.Class.Ruled() && (!a.fromUpstream() || code < http.StatusOK): // Envoy's own answer, or a protocol upgrade
		return x.replyNoAnswer(), nil
	case x.entry.Class.Handling == frontend.Preflight:
		return an.preflightReply(), nil
	case x.entry.Class.Handling == frontend.Public:
		return an.publicHeaders(h.GetEndOfStream(), away), nil
	case x.settled:
		return nil, errProtocol
	}
	if x.admission == nil {
		return x.cutShort(a)
	}
	x.arrived()
	if a.unsent() {
		x.p.opt.Log.WarnContext(x.ctx, "the backend was not reached", "backend", x.b.Name, "decision", x.admission.Decision.ID)
		ctx := context.WithoutCancel(x.forwarded)
		return x.reply(x.p.opt.Gate.AbandonUnsent(ctx, x.admission, memproxy.StreamWhole)), nil
	}
	if !a.fromUpstream() || code < http.StatusOK {
		return x.abandon(code), nil // a protocol upgrade is not an answer
	}
	x.status = code
	adm := x.admission
	switch {
	case away:
		_, refusal := an.filter(nil)
		return refusal, nil
	case !adm.Inspect:
		x.p.opt.Gate.RecordUnfiltered(context.WithoutCancel(x.forwarded), adm, code, memproxy.StreamWhole)
		if adm.ErrorsByStatus && code >= http.StatusBadRequest {
			return x.reply(frontend.Failed(code)), nil
		}
		return an.passUnread(h.GetEndOfStream()), nil
	case x.req.Method == http.MethodHead: // no GET could be sent in its place, whose answer could be filtered
		return x.abandon(http.StatusBadGateway), nil
	case adm.Streams() && frontend.EventStream(http.Header(header)):
		an.events = &frontend.Events{Max: x.b.MaxAnswer}
		return an.streamed(h.GetEndOfStream()), nil
	case h.GetEndOfStream():
		if _, refusal := an.filter(nil); refusal != nil {
			return refusal, nil
		}
		if len(an.reply.Body) > 0 {
			return x.abandon(http.StatusBadGateway), nil // an answer without a body cannot be given one
		}
		x.over = true
		return &change{headers: changes(header, an.header(false))}, nil
	}
	if n, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && n > x.b.MaxAnswer {
		return x.replyUnreadable(frontend.ErrTooLarge), nil
	}
	return &change{}, nil
}

// relocate rewrites a redirect to the backend so that it leads through Envoy. Envoy sends
// backends the client's Host, unless a route rewrites it, and they build their own address
// with it.
func (an *answer) relocate(h memproxy.Header) {
	up, asked := an.x.b.Upstream, an.x.req.credentials
	from := h.Get("Location")
	frontend.RewriteLocation(http.Header(h), up, http.Header(asked.Header))
	if up != nil && asked.Host != "" && h.Get("Location") == from {
		frontend.RewriteLocation(http.Header(h), &url.URL{Scheme: up.Scheme, Host: asked.Host, Path: up.Path, RawPath: up.RawPath}, http.Header(asked.Header))
	}
}

// body passes a whole answer, or a piece of a stream, through the gate.
func (an *answer) body(b *procv3.HttpBody) (*change, error) {
	x := an.x
	if an.events != nil && !x.settled {
		return an.piece(b)
	}
	if an.passing { // Envoy does not accept a mode override here
		x.over = b.GetEndOfStream()
		return &change{}, nil
	}
	if x.inspect {
		return an.publicBody(b), nil
	}
	if x.settled || x.admission == nil || an.reply.Status == 0 {
		return nil, errProtocol
	}
	defer x.entry.Lease.Done()
	plain, decoded, err := an.read(b.GetBody())
	if err != nil {
		return x.replyUnreadable(err), nil
	}
	changed, refusal := an.filter(plain)
	if refusal != nil {
		return refusal, nil
	}
	x.over = b.GetEndOfStream() // otherwise trailers follow
	return an.forwardRead(changed || decoded), nil
}

func (an *answer) forwardRead(changed bool) *change {
	h := an.header(changed)
	if !changed {
		return &change{headers: changes(an.received, h)}
	}
	h.Set("Content-Length", strconv.Itoa(len(an.reply.Body)))
	return &change{headers: changes(an.received, h), body: replaceBody(an.reply.Body)}
}

// read decompresses an answer, and reserves the memory for it and for filtering it.
func (an *answer) read(body []byte) (plain []byte, decoded bool, err error) {
	x := an.x
	if err = an.grow(int64(len(body))); err == nil {
		plain, decoded, err = frontend.Decompress(body, http.Header(an.received), x.b.MaxAnswer, an.grow)
	}
	if err == nil && !x.admission.Writes() {
		err = x.entry.Lease.Work(x.forwarded, frontend.AnswerCost*int64(len(plain)))
	}
	return plain, decoded, err
}

// grow reserves the memory for n bytes of an answer. The answer to a write is never
// refused for lack of memory, because its outcome must become known.
func (an *answer) grow(n int64) error {
	x := an.x
	if x.admission != nil && x.admission.Writes() {
		x.entry.Lease.Force(n)
		return nil
	}
	return x.entry.Lease.Grow(x.ctx, n)
}

// trailers ends an answer. An answer without a body is settled here.
func (an *answer) trailers(t *procv3.HttpTrailers) (*change, error) {
	x := an.x
	switch {
	case x.admission == nil || x.settled || an.reply.Status == 0:
	case an.events != nil:
		an.ended(memproxy.StreamWhole)
	default:
		if _, refusal := an.filter(nil); refusal != nil {
			return refusal, nil
		}
	}
	x.over = true
	return removeTrailers(t), nil
}

// filter passes an answer through the gate. A refusal replaces it.
func (an *answer) filter(body []byte) (changed bool, refusal *change) {
	x := an.x
	an.reply.Body = body
	an.reply = x.p.opt.Gate.Return(context.WithoutCancel(x.forwarded), x.admission, an.reply)
	if an.reply.Status != x.status || x.admission.AnswerRefusal != nil {
		return false, x.reply(an.reply)
	}
	x.b.follower.Follow(x.admission)
	x.settled = true
	return !frontend.SameBytes(an.reply.Body, body), nil
}

// header returns the headers with which the answer is forwarded. changed means that its
// bytes differ from the backend's.
func (an *answer) header(changed bool) http.Header {
	x := an.x
	out := http.Header{}
	x.b.Credential.CopyResponseHeaders(out, http.Header(an.reply.Header), func(names []string) bool { return x.p.opt.Gate.Headers(x.ctx, x.admission, x.b.Name, names) })
	if a := x.admission; a != nil {
		out.Set(frontend.DecisionHeader, frontend.FormatDecision(a.Shown()))
		if !a.Shadow() {
			frontend.DisableCaching(out)
		}
		frontend.SetListHeaders(a, out.Set)
	}
	if changed {
		frontend.DropEntityHeaders(out)
	}
	return out
}

// passUnread forwards an answer whose body is not read, with the generally allowed headers
// only and without trailers.
func (an *answer) passUnread(end bool) *change {
	x := an.x
	x.settled, x.over, an.passing = true, end, true
	return &change{headers: changes(an.received, an.header(false)), next: headersOnly()}
}

// recordReset records the outcome of an exchange that Envoy ended early: either the client
// disconnected or Envoy reset its stream. Envoy does not report which.
func (an *answer) recordReset(ctx context.Context) {
	x := an.x
	if an.events != nil {
		x.p.opt.Gate.RecordUnfiltered(ctx, x.admission, x.status, memproxy.StreamReset)
		return
	}
	x.p.opt.Gate.Abandon(ctx, x.admission, memproxy.StreamReset)
}

// headTime is the timeout of the GET that is sent in place of a HEAD.
const headTime = 60 * time.Second

// reader fetches a whole answer from the backend.
type reader interface {
	FetchAnswer(context.Context, memproxy.Request, int64) (memproxy.Reply, error)
}

// replyToHead answers a HEAD whose answer would be filtered. nil means that Envoy continues.
// Envoy does not let a filter change the method, so the processor sends the corresponding
// GET itself and filters its answer.
func (an *answer) replyToHead() *change {
	x := an.x
	a := x.admission
	ask, ok := x.entry.Call.Backend.Fetch.(reader) // counted for the caller
	if frontend.UpstreamMethod(x.req.Method, a) == x.req.Method || !ok {
		return nil
	}
	q := a.Call().Request
	q.Method, q.Query = http.MethodGet, a.Query
	ctx, cancel := context.WithTimeout(x.forwarded, headTime)
	defer cancel()
	reply, err := ask.FetchAnswer(ctx, q, x.b.MaxAnswer)
	x.arrived()
	if err != nil {
		return x.replyUnreadable(err)
	}
	defer x.entry.Lease.Done()
	if reply.Body, _, err = an.read(reply.Body); err != nil {
		return x.replyUnreadable(err)
	}
	an.relocate(reply.Header)
	an.reply, x.status = reply, reply.Status
	changed, refusal := an.filter(reply.Body)
	if refusal != nil {
		return refusal
	}
	h := an.header(changed)
	delete(h, "Content-Length") // Envoy sets the header itself
	an.reply.Header = memproxy.Header(h)
	return immediate(an.reply, &a.Decision)
}
