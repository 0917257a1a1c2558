package signal

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Sources supply values when metrics are collected. They must not block. Nil ones are
// skipped.
type Sources struct {
	// AuditLag returns the number of events that wait for the disk, and that of durable
	// records that wait for a signed checkpoint.
	AuditLag func() (queued, unsigned int64)
	// Rules returns the version of the rules in force.
	Rules func() string
	// Version is the version of the program.
	Version string
	// Exports returns the counts of exports by signal.
	Exports func() []ExportCounters
	// Unsafe lists the settings that weaken production.
	Unsafe []string
	// Sealed reports for each backend whether its initial content was recorded.
	Sealed func() map[string]bool
	// Listeners returns the counters of the listeners' limits.
	Listeners func() []ListenerCounters
}

// ListenerCounters has the counters of one listener's limits.
type ListenerCounters struct {
	Listener         string
	Refused, Evicted int64 // connections
	UsedBytes        int64 // bytes
	RefusedRequests  int64 // requests
}

// ExportCounters has the export counters of a signal.
type ExportCounters struct {
	Signal string // traces, metrics, logs
	// Offered counts everything to be exported. What is neither in OK nor in Failed waits,
	// or was dropped because the queue was full.
	Offered, OK, Failed int64
}

// observable creates the instrument of a gauge, or of a counter whose value comes from
// a source.
func (in *Instruments) observable(m Metric) error {
	var o metric.Observable
	var err error
	switch m.Kind {
	case Gauge:
		o, err = in.meter.Int64ObservableGauge(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Meaning))
	case Counter:
		o, err = in.meter.Int64ObservableCounter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Meaning))
	default:
		return fmt.Errorf("metric %s has no instrument", m.Name)
	}
	in.gauges[m.Name] = o
	return err
}

// ObserveSources calls the sources at every collection until stop is called.
func (in *Instruments) ObserveSources(s Sources) (stop func() error, err error) {
	reg, err := in.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		in.observe(o, s)
		return nil
	}, slices.Collect(maps.Values(in.gauges))...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: watch: %w", err)
	}
	return reg.Unregister, nil
}

func (in *Instruments) observe(o metric.Observer, s Sources) {
	integer := func(name string, n int64, labels ...attribute.KeyValue) {
		o.ObserveInt64(in.gauges[name].(metric.Int64Observable), n, metric.WithAttributes(labels...))
	}
	if s.AuditLag != nil {
		queued, unsigned := s.AuditLag()
		integer(MetricAuditLag, queued, attribute.String(LabelState, StateQueued))
		integer(MetricAuditLag, unsigned, attribute.String(LabelState, StateUnsigned))
	}
	if s.Rules != nil {
		integer(MetricRules, 1, attribute.String(LabelVersion, s.Rules()))
	}
	if s.Version != "" {
		integer(MetricBuild, 1, attribute.String(LabelVersion, s.Version), attribute.String(LabelGo, runtime.Version()))
	}
	for _, name := range s.Unsafe {
		integer(MetricUnsafe, 1, attribute.String(LabelSetting, name))
	}
	if s.Sealed != nil {
		for name, sealed := range s.Sealed() {
			n := int64(0)
			if sealed {
				n = 1
			}
			integer(MetricSealed, n, attribute.String(LabelBackend, name))
		}
	}
	if s.Listeners != nil {
		for _, b := range s.Listeners() {
			at := attribute.String(LabelName, b.Listener)
			integer(MetricConnections, b.Refused, at, attribute.String(LabelResult, ResultRefused))
			integer(MetricConnections, b.Evicted, at, attribute.String(LabelResult, ResultEvicted))
			integer(MetricInFlight, b.UsedBytes, at)
			integer(MetricInFlightRefused, b.RefusedRequests, at)
		}
	}
	if s.Exports != nil {
		for _, e := range s.Exports() {
			integer(MetricExports, e.Offered, attribute.String(LabelSignal, e.Signal), attribute.String(LabelResult, ResultOffered))
			integer(MetricExports, e.OK, attribute.String(LabelSignal, e.Signal), attribute.String(LabelResult, ResultOK))
			integer(MetricExports, e.Failed, attribute.String(LabelSignal, e.Signal), attribute.String(LabelResult, ResultFailed))
		}
	}
}
