package signal

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Observe reports the current value of a gauge, or of a counter that its owner counts,
// with the values of its labels in the order of the catalogue.
type Observe func(metric string, n int64, labels ...string)

// observed is an instrument whose value is read when metrics are collected.
type observed struct {
	metric.Int64Observable
	labels []string
}

// observable creates the instrument of a gauge, or of a counter whose value comes from
// a source.
func (in *Instruments) observable(m Metric) error {
	unit, meaning := metric.WithUnit(m.Unit), metric.WithDescription(m.Meaning)
	o := observed{labels: m.Labels}
	var err error
	switch m.Kind {
	case Gauge:
		o.Int64Observable, err = in.meter.Int64ObservableGauge(m.Name, unit, meaning)
	case Counter:
		o.Int64Observable, err = in.meter.Int64ObservableCounter(m.Name, unit, meaning)
	default:
		return fmt.Errorf("metric %s has no instrument", m.Name)
	}
	in.observed[m.Name] = o
	return err
}

// ObserveSource calls source at every collection until stop is called. The source must not
// block.
func (in *Instruments) ObserveSource(source func(Observe)) (stop func() error, err error) {
	var all []metric.Observable
	for _, o := range in.observed {
		all = append(all, o.Int64Observable)
	}
	reg, err := in.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		source(func(name string, n int64, values ...string) {
			o := in.observed[name]
			labels := make([]attribute.KeyValue, len(values))
			for i, v := range values {
				labels[i] = attribute.String(o.labels[i], v)
			}
			to.ObserveInt64(o.Int64Observable, n, metric.WithAttributes(labels...))
		})
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: register a source of metrics: %w", err)
	}
	return reg.Unregister, nil
}
