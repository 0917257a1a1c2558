package telemetry

import (
	"slices"

	"github.com/memproxy/memproxy/telemetry/signal"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

type allowList map[attribute.Key]bool

func newAllowList() allowList {
	f := allowList{}
	for _, key := range signal.Attributes() {
		f[attribute.Key(key)] = true
	}
	return f
}

// attributes filters a list. It returns the list itself if all of it may be exported.
func (f allowList) attributes(list []attribute.KeyValue) []attribute.KeyValue {
	forbidden := func(kv attribute.KeyValue) bool { return !f[kv.Key] }
	if !slices.ContainsFunc(list, forbidden) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), forbidden)
}

// filteredSpan is a span without events and without attributes that must not be exported.
type filteredSpan struct {
	sdktrace.ReadOnlySpan
	attrs []attribute.KeyValue
}

func (s filteredSpan) Attributes() []attribute.KeyValue { return s.attrs }

func (s filteredSpan) Events() []sdktrace.Event { return nil }
