package frontend

import (
	"cmp"
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// Entry passes one request to the gate, in the same order for both listeners: the caller
// is identified (Identify) and its concurrent requests are counted (Enter) before a body
// is read; then the body is checked (Read), and the request is ruled on (Admit).
type Entry struct {
	Gate  *gate.Gate
	Log   *slog.Logger
	Lease *Lease
	Class Class
	// Call is the call as known from the head of the request. Identify adds the caller.
	Call gate.Call
}

// Identify identifies the caller and reports whether the body should be read; see
// Gate.Identify.
func (e *Entry) Identify(ctx context.Context) bool {
	e.Call.NoMemoryAccess = e.Class.Handling == Passed
	return e.Gate.Identify(ctx, &e.Call)
}

// Enter counts an identified call as one of its caller's concurrent requests, and
// attributes its connection, its bytes and its side requests to the caller. If the caller
// has too many requests, Enter makes the gate refuse the call, in shadow mode as well.
func (e *Entry) Enter(ctx context.Context) (entered bool) {
	caller, tenant := e.Call.Caller()
	MarkAccepted(ctx, caller)
	if e.Lease.Enter(ctx, caller, tenant) != nil {
		e.Class.Flaw = Busy()
		return false
	}
	if side, ok := e.Call.Backend.Fetch.(*Side); ok {
		e.Call.Backend.Fetch = side.For(caller, tenant)
	}
	return true
}

// CheckBody checks a body; see Class.CheckBody.
func (e *Entry) CheckBody(body []byte) {
	if e.Class.Flaw == nil {
		e.Class.Flaw = e.Class.CheckBody(e.Call.Request, body)
	}
}

// GateCall returns the call for the gate. flaw is the flaw of the body.
func (e *Entry) GateCall(body []byte, flaw *memproxy.Flaw) *gate.Call {
	call := e.Call
	req, options, wrong := ParseReadOptions(call.Request)
	if len(body) == 0 || e.Class.Handling == Passed {
		body = nil
	}
	call.Request, call.Body, call.Flaw, call.ReadOptions = req, body, cmp.Or(flaw, wrong), options
	call.Route, call.Known, call.NoMemoryAccess = e.Class.Route, e.Class.Known, e.Class.Handling == Passed
	if e.Class.Flaw != nil {
		call.Flaw, call.RefuseInShadow = e.Class.Flaw, true
	}
	return &call
}

// Admit lets the gate rule on the request, and then releases the working memory.
func (e *Entry) Admit(ctx context.Context, body []byte, flaw *memproxy.Flaw) *gate.Admission {
	a := e.Gate.Admit(ctx, e.GateCall(body, flaw))
	e.Lease.Done()
	LogDecision(ctx, e.Log, e.Call.Backend.Name, a)
	return a
}

// End records the result of a request in its span, and returns the verdict for its
// metrics. a is nil if the gate did not rule, and status is 0 if none was sent.
func (e *Entry) End(span trace.Span, a *gate.Admission, method string, status int) (verdict string) {
	verdict = "pass"
	if a != nil {
		verdict = a.Shown().Verdict.String() // as the decision header shows it
	}
	if !span.IsRecording() {
		return verdict
	}
	list := make([]attribute.KeyValue, 0, 24)
	if a != nil {
		list = a.Attributes(list)
	}
	list = append(list, attribute.String(signal.AttrHTTPMethod, memproxy.InertMethod(method)), attribute.String(signal.AttrHTTPRoute, e.Class.Name))
	if status != 0 {
		list = append(list, attribute.Int(signal.AttrHTTPStatus, status))
	}
	span.SetAttributes(list...)
	if status >= 500 {
		span.SetStatus(codes.Error, "")
	}
	return verdict
}

// LogDecision logs the decision on a request.
func LogDecision(ctx context.Context, log *slog.Logger, backend string, a *gate.Admission) {
	if a.RateLimited || !log.Enabled(ctx, slog.LevelInfo) { // floods are summarised in one line
		return
	}
	d := &a.Decision
	log.InfoContext(ctx, "decision", "decision", d.ID, "verdict", d.Verdict.String(), "would", d.ShadowVerdict.String(),
		"reasons", memproxy.Codes(d.Recorded()), "principal", a.Principal.ID, "backend", backend, "route", a.Call().Route.ID, "policy", d.Policy)
}
