package extproc

import (
	"context"
	"net/http"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// streamed begins a stream of events, each of which is filtered as it arrives. A stream
// that is compressed although no compression was requested is read as a whole.
func (an *answer) streamed(end bool) *change {
	x, h := an.x, an.received
	an.held = x.entry.Lease.Holds()
	c := &change{headers: changes(h, an.header(true))}
	if len(h["Content-Encoding"]) == 0 {
		c.next = answerIn(modev3.ProcessingMode_STREAMED)
	}
	if end {
		an.ended(memproxy.StreamWhole)
		x.over = true
	}
	return c
}

// piece filters the next part of a stream. An incomplete event waits for its remainder.
// On an error the processor ends its stream with a status, and Envoy resets the client's.
func (an *answer) piece(b *procv3.HttpBody) (*change, error) {
	x, lease := an.x, an.x.entry.Lease
	grow := func(n int64) error { return lease.Grow(x.ctx, n) }
	lease.Keep(an.held)
	err := grow(an.events.Pending() + int64(len(b.GetBody())) - frontend.SmallPiece)
	var plain []byte
	if err == nil {
		plain, _, err = frontend.Decompress(b.GetBody(), http.Header(an.received), x.b.MaxAnswer, grow)
	}
	var events [][]byte
	if err == nil {
		events, err = an.events.Feed(plain)
	}
	if err != nil {
		an.ended(frontend.StreamEndOf(err))
		return nil, err
	}
	if b.GetEndOfStream() {
		events = append(events, an.events.Rest()...)
	}
	var out []byte
	for _, e := range events {
		out = append(out, x.p.opt.Gate.Event(x.forwarded, x.admission, e)...)
	}
	if b.GetEndOfStream() {
		an.ended(memproxy.StreamWhole)
		x.over = true
	}
	return &change{body: replaceBody(out)}, nil
}

func (an *answer) ended(end memproxy.StreamEnd) {
	x := an.x
	x.settled = true
	x.p.opt.Gate.RecordUnfiltered(context.WithoutCancel(x.forwarded), x.admission, x.status, end)
}
