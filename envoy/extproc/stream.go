package extproc

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
)

// unread lets an answer pass of which nobody reads the body: its headers are
// those that every answer may have, and its trailers go.
func (x *exchange) unread(end bool) *response {
	x.settled, x.over, x.passing = true, end, true
	m := x.backward()
	if x.admission != nil {
		m = x.incoming()
	}
	r := onResponseHeaders(m)
	r.ModeOverride = headersOnly()
	return r
}

// publish passes a public route's answer on without what no row claims.
func (x *exchange) publish(b *procv3.HttpBody) *response {
	x.over = b.GetEndOfStream() // else trailers follow
	body := b.GetBody()
	plain, decoded, err := face.Plain(body, strings.Join(x.answer.Header["Content-Encoding"], ","), face.MaxPublic)
	reply := memproxy.Reply{Status: x.status, Header: x.answer.Header, Body: plain}
	if err == nil {
		reply, err = x.p.opt.Gate.Public(x.ctx, x.b.gate, x.entry.Course.Route, reply)
	}
	if err != nil {
		x.p.opt.Log.WarnContext(x.ctx, "answer withheld", "backend", x.b.Name, "route", x.entry.Course.Name, "error", err)
		x.over, x.status = true, http.StatusBadGateway
		return immediate(face.Gone(), &memproxy.Decision{})
	}
	x.media = reply.Header.Get("Content-Type")
	return x.rewritten(x.backward(), reply.Body, decoded || !bytes.Equal(reply.Body, plain))
}

// streamed begins a stream of events, which are filtered one by one as they
// come. One that is compressed, though nobody asked for that, is taken whole.
func (x *exchange) streamed(end bool) *response {
	x.events = &face.Events{Max: x.b.MaxAnswer}
	m := x.incoming()
	m.remove("Content-Length")
	m.changed(x.answer.Header)
	r := onResponseHeaders(m)
	if len(x.answer.Header["Content-Encoding"]) == 0 {
		r.ModeOverride = streamed()
	}
	if end {
		x.ended(memproxy.StreamWhole)
		x.over = true
	}
	return r
}

// piece filters what came of a stream. An event that is not whole yet waits for
// the rest of it. On an error the processor ends its stream with a status, and
// Envoy resets the client's.
func (x *exchange) piece(b *procv3.HttpBody) (*response, error) {
	plain, _, err := face.Plain(b.GetBody(), x.answer.Header.Get("Content-Encoding"), x.b.MaxAnswer)
	var events [][]byte
	if err == nil {
		events, err = x.events.Feed(plain)
	}
	if err != nil {
		end := memproxy.StreamTorn
		if errors.Is(err, face.ErrTooLarge) {
			end = memproxy.StreamTooLarge
		}
		x.ended(end)
		return nil, err
	}
	if b.GetEndOfStream() {
		if rest := x.events.Rest(); rest != nil {
			events = append(events, rest)
		}
	}
	var out []byte
	for _, e := range events {
		out = append(out, x.p.opt.Gate.Event(x.forwarded, x.admission, e)...)
	}
	if b.GetEndOfStream() {
		x.ended(memproxy.StreamWhole)
		x.over = true
	}
	return onResponseBody(nil, out, true), nil
}

// ended notes the outcome of a stream.
func (x *exchange) ended(end memproxy.StreamEnd) {
	x.settled = true
	x.p.opt.Gate.Streamed(context.WithoutCancel(x.forwarded), x.admission, x.status, end)
}

// broke notes the outcome of what Envoy cut off. Envoy has reset the client's
// stream, if it was not the client that hung up; which of them is not said.
func (x *exchange) broke(ctx context.Context) {
	if x.events != nil {
		x.p.opt.Gate.Streamed(ctx, x.admission, x.status, memproxy.StreamReset)
		return
	}
	x.p.opt.Gate.Abandon(ctx, x.admission, memproxy.StreamReset)
}
