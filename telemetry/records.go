package telemetry

import (
	"context"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/signal"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"
)

// OnRecord is a hook of the audit log. It exports a copy of the record as the body of a
// log record, with the decision's attributes and linked to the request's trace. It
// neither blocks nor fails: a copy that is lost is still in the audit log.
func (t *Telemetry) OnRecord(_ uint64, ev *memproxy.Event, record []byte) {
	ctx := context.Background()
	t.instruments.Recorded(ctx, ev.Type)
	if t.records == nil || !t.logs.offer(int64(len(record))) {
		return
	}
	var r log.Record
	r.SetEventName("memproxy." + string(ev.Type))
	r.SetTimestamp(ev.Time)
	severity, text := severityOf(ev)
	r.SetSeverity(severity)
	r.SetSeverityText(text)
	r.SetBody(attribute.StringValue(string(record)))
	var array [24]attribute.KeyValue
	attrs := append(array[:0], attribute.String(signal.AttrEventType, string(ev.Type)))
	if ev.Decision != "" {
		attrs = signal.AppendKey(attrs, ev)
	}
	if ev.Status != 0 {
		attrs = append(attrs, attribute.Int(signal.AttrHTTPStatus, ev.Status))
	}
	if ev.Cancelled {
		attrs = append(attrs, attribute.Bool(signal.AttrCancelled, true))
	}
	r.AddAttributes(attrs...)
	if id, err := trace.TraceIDFromHex(ev.Trace); err == nil { // the span ended long ago
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: id}))
	}
	t.records.Emit(ctx, r)
}

func severityOf(ev *memproxy.Event) (log.Severity, string) {
	switch {
	case ev.Type == memproxy.EventRepair, ev.Type == memproxy.EventChainBreak:
		return log.SeverityError, "ERROR"
	case ev.Type == memproxy.EventDecision && (ev.Verdict.Stops() || ev.ShadowVerdict.Stops()),
		ev.Type == memproxy.EventBudgetExceeded, ev.Type == memproxy.EventBudgetWarning, ev.Type == memproxy.EventRapidWrites, ev.Type == memproxy.EventRejections,
		ev.Type == memproxy.EventIntegrity && len(ev.Reasons) > 0:
		return log.SeverityWarn, "WARN"
	}
	return log.SeverityInfo, "INFO"
}
