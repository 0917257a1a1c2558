package signal

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxSets bounds the label combinations of one instrument. The vocabularies
// are closed, so it is only reached by policies that invent reason codes.
const maxSets = 1000

// maxLabels is the most labels that a metric has.
const maxLabels = 5

// sets caches the options of one instrument's label combinations, because building one
// costs more than recording with it. Beyond the bound all further combinations share
// one, so that callers cannot grow the metrics without limit.
type sets struct {
	names []string // of the labels, in the catalogue's order

	mu  sync.RWMutex
	all map[[maxLabels]string]*set
}

// set is one label combination, ready for either kind of instrument.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
	labels []attribute.KeyValue
}

// of is the combination of these values, one for each label.
func (s *sets) of(values ...string) *set {
	var k [maxLabels]string
	copy(k[:], values)
	s.mu.RLock()
	found, ok := s.all[k]
	s.mu.RUnlock()
	if ok {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxSets {
		for i := range s.names {
			k[i] = Other
		}
	}
	if found, ok := s.all[k]; ok {
		return found
	}
	labels := make([]attribute.KeyValue, len(s.names))
	for i, name := range s.names {
		labels[i] = attribute.String(name, k[i])
	}
	option := metric.WithAttributeSet(attribute.NewSet(labels...))
	made := &set{add: []metric.AddOption{option}, record: []metric.RecordOption{option}, labels: labels}
	if s.all == nil {
		s.all = map[[maxLabels]string]*set{}
	}
	s.all[k] = made
	return made
}

// counter counts by its labels.
type counter struct {
	metric.Int64Counter
	sets
}

func (c *counter) add(ctx context.Context, n int, values ...string) {
	c.Add(ctx, int64(n), c.of(values...).add...)
}

// histogram records by its labels.
type histogram struct {
	metric.Float64Histogram
	sets
}

func (h *histogram) record(ctx context.Context, x float64, values ...string) {
	h.Record(ctx, x, h.of(values...).record...)
}
