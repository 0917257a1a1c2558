package signal

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxSets limits the label combinations of an instrument. Only custom reason codes of
// policies can reach the limit.
const maxSets = 1000

// maxLabels is the largest number of labels of a metric.
const maxLabels = 5

// instrument is the instrument of a metric: a counter, a histogram, or a value that is read
// when metrics are collected. It caches the options of its label combinations, because
// building them costs more than recording with them. Above maxSets all further
// combinations share one, so that callers cannot grow the metrics without limit.
type instrument struct {
	names     []string // labels, in the order of the catalogue
	counter   metric.Int64Counter
	histogram metric.Float64Histogram
	observed  metric.Int64Observable

	mu  sync.RWMutex
	all map[[maxLabels]string]*set
}

func newInstrument(meter metric.Meter, m Metric) (i *instrument, err error) {
	i = &instrument{names: m.Labels, all: map[[maxLabels]string]*set{}}
	unit, meaning := metric.WithUnit(m.Unit), metric.WithDescription(m.Meaning)
	switch {
	case m.Kind == Histogram:
		i.histogram, err = meter.Float64Histogram(m.Name, unit, meaning, metric.WithExplicitBucketBoundaries(m.Buckets...))
	case m.Kind == Gauge:
		i.observed, err = meter.Int64ObservableGauge(m.Name, unit, meaning)
	case m.Observed:
		i.observed, err = meter.Int64ObservableCounter(m.Name, unit, meaning)
	default:
		i.counter, err = meter.Int64Counter(m.Name, unit, meaning)
	}
	return i, err
}

func (i *instrument) add(ctx context.Context, n int, values ...string) {
	i.counter.Add(ctx, int64(n), i.of(values...).add...)
}

func (i *instrument) record(ctx context.Context, x float64, values ...string) {
	i.histogram.Record(ctx, x, i.of(values...).record...)
}

// set has the options of one label combination, for both kinds of instruments.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
	labels []attribute.KeyValue
}

// of returns the set for a combination of values, one per label.
func (i *instrument) of(values ...string) *set {
	var k [maxLabels]string
	copy(k[:], values)
	i.mu.RLock()
	found, ok := i.all[k]
	i.mu.RUnlock()
	if ok {
		return found
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.all) >= maxSets {
		for j := range i.names {
			k[j] = Other
		}
	}
	if found, ok := i.all[k]; ok {
		return found
	}
	labels := i.attributes(k[:len(i.names)])
	option := metric.WithAttributeSet(attribute.NewSet(labels...))
	made := &set{add: []metric.AddOption{option}, record: []metric.RecordOption{option}, labels: labels}
	i.all[k] = made
	return made
}

func (i *instrument) attributes(values []string) []attribute.KeyValue {
	out := make([]attribute.KeyValue, len(values))
	for j, v := range values {
		out[j] = attribute.String(i.names[j], v)
	}
	return out
}
