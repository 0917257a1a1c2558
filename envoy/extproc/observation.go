package extproc

import (
	"cmp"
	"context"
	"strconv"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// observation collects a request in observability mode, in which Envoy sends a copy of the
// traffic and does not wait for responses. This is shadow mode: the decision is recorded
// as not enforced.
type observation struct {
	x    *exchange
	body []byte
	flaw *memproxy.Flaw
}

func (o *observation) message(ctx context.Context, msg *procv3.ProcessingRequest) error {
	x := o.x
	switch m := msg.Request.(type) {
	case *procv3.ProcessingRequest_RequestHeaders:
		h := m.RequestHeaders
		if err := x.begin(ctx, h, attributes(msg)); err != nil {
			return err
		}
		x.entry.Call.ObserveOnly = true
		if !x.entry.Class.Ruled() {
			x.settled, x.over = true, true
			return nil
		}
		if !x.entry.Class.ReadsBody() {
			o.rule()
			return nil
		}
		if c := msg.GetProtocolConfig(); c != nil && c.GetRequestBodyMode() != modev3.ProcessingMode_STREAMED && !h.GetEndOfStream() {
			// Envoy would not send the body, and a ruling without it is meaningless.
			// (Envoy 1.40 does not report the protocol configuration in this mode.)
			x.settled = true
			return errObservability
		}
		if h.GetEndOfStream() {
			o.rule()
		}
	case *procv3.ProcessingRequest_RequestBody:
		o.gather(m.RequestBody)
	case *procv3.ProcessingRequest_RequestTrailers:
		o.rule()
	case *procv3.ProcessingRequest_ResponseHeaders:
		if !x.entry.Call.ObserveOnly || x.settled {
			return nil
		}
		if x.admission == nil { // a backend may answer before it has received the whole body
			o.flaw = frontend.TooSlow()
			o.rule()
		}
		pseudo, _ := headers(m.ResponseHeaders.GetHeaders())
		x.status, _ = strconv.Atoi(pseudo[":status"]) // 0 if unknown
		x.p.opt.Gate.RecordUnfiltered(context.WithoutCancel(x.ctx), x.admission, x.status, memproxy.StreamWhole)
		x.settled, x.over = true, true
	}
	return nil
}

// gather appends to the body, up to the limit.
func (o *observation) gather(b *procv3.HttpBody) {
	x := o.x
	if !x.entry.Call.ObserveOnly || x.settled || x.admission != nil {
		return
	}
	if int64(len(o.body)+len(b.GetBody())) > x.b.MaxBody {
		o.flaw, o.body = frontend.TooLarge(x.b.MaxBody), nil
	}
	if o.flaw == nil && x.entry.Lease.Grow(x.ctx, int64(len(b.GetBody()))) != nil {
		o.flaw, o.body = frontend.Busy(), nil
	}
	if o.flaw == nil {
		o.body = append(o.body, b.GetBody()...)
	}
	if b.GetEndOfStream() {
		o.rule()
	}
}

// rule rules on the collected request, once.
func (o *observation) rule() {
	x := o.x
	if x.entry.Call.ObserveOnly && !x.settled && x.admission == nil {
		_, _ = x.admit(o.body, cmp.Or(x.req.flaw, o.flaw))
	}
}
