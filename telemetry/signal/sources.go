package signal

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// Observe reports the current value of a gauge, or of a counter that its owner counts,
// with the values of its labels in the order of the catalogue.
type Observe func(metric string, n int64, labels ...string)

// ObserveSource calls source at every collection until stop is called. The source must not
// block.
func (in *Instruments) ObserveSource(source func(Observe)) (stop func() error, err error) {
	var all []metric.Observable
	for _, i := range in.all {
		if i.observed != nil {
			all = append(all, i.observed)
		}
	}
	reg, err := in.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		source(func(name string, n int64, values ...string) {
			i := in.all[name]
			to.ObserveInt64(i.observed, n, metric.WithAttributes(i.attributes(values)...))
		})
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: register a source of metrics: %w", err)
	}
	return reg.Unregister, nil
}
