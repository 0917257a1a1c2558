package extproc

import (
	"context"

	"github.com/memproxy/memproxy/face"
)

// end tells of what has not come to its end: Envoy reset the stream because
// the client hung up or the backend took too long.
func (x *exchange) end() {
	x.entry.Lease.Release()
	if x.span == nil {
		return
	}
	ctx := context.WithoutCancel(x.ctx)
	if x.ruled && x.admission == nil {
		x.ctx = ctx
		_, _ = x.admit(nil, face.TooSlow())
		x.settled = true
	}
	if x.admission != nil && !x.settled {
		x.broke(ctx)
	}
	x.arrived()
	verdict := x.entry.End(x.span, x.admission, x.req.Method, x.status)
	x.span.End()
	x.b.Observe(ctx, x.entry.Course.Name, string(x.entry.Course.Route.Kind), verdict, x.status, x.p.opt.Clock().Sub(x.begun))
}

// arrived ends the backend's part.
func (x *exchange) arrived() {
	if x.forward != nil {
		x.forward.End()
		x.forward = nil
	}
}
