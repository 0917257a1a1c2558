package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// withoutTraceState propagates W3C trace context without the caller's tracestate, which would
// be exported with every span of the request. tracestate has room for sentences, and a
// caller's text must not reach the person or model that reads traces. The header
// itself is forwarded to the backend unchanged.
type withoutTraceState struct{ propagation.TraceContext }

func (s withoutTraceState) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	ctx = s.TraceContext.Extract(ctx, c)
	sc := trace.SpanContextFromContext(ctx)
	if sc.TraceState().Len() == 0 {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, sc.WithTraceState(trace.TraceState{}))
}
