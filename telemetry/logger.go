package telemetry

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// NewLogger returns the program's logger, which writes records from a level on, as text if
// format is "text", else as JSON. Lines that are written with a request's context have
// trace_id and span_id; the caller sets the decision id as the attribute
// "decision". Values that are or look like credentials or content are replaced (see
// redactor), and strings are cut at 1 KB.
func NewLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: newRedactor().attr}
	if format == "text" {
		return slog.New(tracedHandler{slog.NewTextHandler(w, options)})
	}
	return slog.New(tracedHandler{slog.NewJSONHandler(w, options)})
}

type tracedHandler struct{ slog.Handler }

func (h tracedHandler) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone() // the caller's record may share its attributes
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h tracedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracedHandler{h.Handler.WithAttrs(attrs)}
}

func (h tracedHandler) WithGroup(name string) slog.Handler {
	return tracedHandler{h.Handler.WithGroup(name)}
}
