package extproc

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// end tells of what has not come to its end: Envoy reset the stream because
// the client hung up or the backend took too long.
func (x *exchange) end() {
	x.lease.Release()
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
	verdict, list := "pass", []attribute.KeyValue(nil)
	if a := x.admission; a != nil {
		verdict, list = a.Decision.Verdict.String(), a.Attributes(make([]attribute.KeyValue, 0, 24))
	}
	if x.span.IsRecording() {
		list = append(list, attribute.String(signal.AttrHTTPMethod, x.req.Method), attribute.String(signal.AttrHTTPRoute, x.course.Name))
		if x.status != 0 {
			list = append(list, attribute.Int(signal.AttrHTTPStatus, x.status))
		}
		x.span.SetAttributes(list...)
		if x.status >= 500 {
			x.span.SetStatus(codes.Error, "")
		}
	}
	x.span.End()
	x.b.Observe(ctx, x.course.Name, string(x.course.Route.Kind), verdict, x.status, x.p.opt.Clock().Sub(x.begun))
}

// arrived ends the backend's part.
func (x *exchange) arrived() {
	if x.forward != nil {
		x.forward.End()
		x.forward = nil
	}
}

// log writes the one line that ties a request to its decision.
func (p *Processor) log(ctx context.Context, a *gate.Admission, backend string) {
	if a.Flooded { // one line says how many there were
		return
	}
	d := &a.Decision
	recorded := d.Recorded()
	reasons := make([]string, len(recorded))
	for i := range recorded {
		reasons[i] = string(recorded[i].Code)
	}
	p.opt.Log.InfoContext(ctx, "decision", "decision", d.ID, "verdict", d.Verdict.String(), "would", d.Would.String(),
		"reasons", reasons, "principal", a.Principal.ID, "backend", backend, "route", a.Call().Route.ID, "policy", d.Policy)
}
