package extproc

import (
	"context"
	"strconv"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
)

// observe takes a message of a stream in observability mode: Envoy sends a
// copy of what passes and waits for nothing. That is shadow mode: what would
// have been ruled is recorded, as not enforced.
func (x *exchange) observe(ctx context.Context, msg *procv3.ProcessingRequest) error {
	switch m := msg.Request.(type) {
	case *procv3.ProcessingRequest_RequestHeaders:
		h := m.RequestHeaders
		if err := x.begin(ctx, h, attributes(msg)); err != nil {
			return err
		}
		x.watching, x.entry.Call.Watch = true, true
		if !x.ruled {
			x.settled, x.over = true, true
			return nil
		}
		if !x.whole {
			x.seen()
			return nil
		}
		if c := msg.GetProtocolConfig(); c != nil && c.GetRequestBodyMode() != modev3.ProcessingMode_STREAMED && !h.GetEndOfStream() {
			// The body would not be sent; ruling on half a request says nothing.
			// (Envoy 1.40 does not say in this mode.)
			x.ruled, x.settled = false, true
			return errWatch
		}
		if h.GetEndOfStream() {
			x.seen()
		}
	case *procv3.ProcessingRequest_RequestBody:
		x.gather(m.RequestBody)
	case *procv3.ProcessingRequest_RequestTrailers:
		x.seen()
	case *procv3.ProcessingRequest_ResponseHeaders:
		if !x.watching || !x.ruled || x.settled {
			return nil
		}
		if x.admission == nil { // a backend may answer before it has the whole body
			x.flaw = face.TooSlow()
			x.seen()
		}
		pseudo, _ := headers(m.ResponseHeaders.GetHeaders())
		x.status, _ = strconv.Atoi(pseudo[":status"]) // 0 says that it is not known
		x.p.opt.Gate.Streamed(context.WithoutCancel(x.ctx), x.admission, x.status, memproxy.StreamWhole)
		x.settled, x.over = true, true
	}
	return nil
}

// gather keeps what came of the body, up to the limit.
func (x *exchange) gather(b *procv3.HttpBody) {
	if !x.watching || !x.ruled || x.admission != nil {
		return
	}
	if int64(len(x.body)+len(b.GetBody())) > x.b.MaxBody {
		x.flaw, x.body = face.TooLarge(x.b.MaxBody), nil
	}
	if x.flaw == nil && x.entry.Lease.Grow(x.ctx, int64(len(b.GetBody()))) != nil {
		x.flaw, x.body = face.Busy(), nil
	}
	if x.flaw == nil {
		x.body = append(x.body, b.GetBody()...)
	}
	if b.GetEndOfStream() {
		x.seen()
	}
}

// seen rules on what was seen of the request, once.
func (x *exchange) seen() {
	if !x.watching || !x.ruled || x.admission != nil {
		return
	}
	flaw := x.req.flaw
	if flaw == nil {
		flaw = x.flaw
	}
	_, _ = x.admit(x.body, flaw)
}
