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

// sets caches the options of one instrument's label combinations, because building them
// costs more than recording with them. Above maxSets all further combinations share
// one, so that callers cannot grow the metrics without limit.
type sets struct {
	names []string // labels, in the order of the catalogue

	mu  sync.RWMutex
	all map[[maxLabels]string]*set
}

// set has the options of one label combination, for both kinds of instruments.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
	labels []attribute.KeyValue
}

// of returns the set for a combination of values, one per label.
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

// counter is a counter with cached label combinations.
type counter struct {
	metric.Int64Counter
	sets
}

func (c *counter) add(ctx context.Context, n int, values ...string) {
	c.Add(ctx, int64(n), c.of(values...).add...)
}

// histogram is a histogram with cached label combinations.
type histogram struct {
	metric.Float64Histogram
	sets
}

func (h *histogram) record(ctx context.Context, x float64, values ...string) {
	h.Record(ctx, x, h.of(values...).record...)
}
