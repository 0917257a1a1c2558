package signal

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxSets bounds the label combinations of one instrument. The vocabularies
// are closed, so it is only reached by policies that invent reason codes.
const maxSets = 1000

// sets caches the options of label combinations, because building one costs more
// than recording with it. Beyond the bound all further combinations share one, so
// that callers cannot grow the metrics without limit.
type sets[K comparable] struct {
	build func(K) []attribute.KeyValue
	other K

	mu  sync.RWMutex
	all map[K]*set
}

// set is one label combination, ready for either kind of instrument.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
	labels []attribute.KeyValue
}

func newSets[K comparable](other K, build func(K) []attribute.KeyValue) *sets[K] {
	return &sets[K]{build: build, other: other, all: map[K]*set{}}
}

func (s *sets[K]) of(k K) *set {
	s.mu.RLock()
	found, ok := s.all[k]
	s.mu.RUnlock()
	if ok {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxSets {
		k = s.other
	}
	if found, ok := s.all[k]; ok {
		return found
	}
	labels := s.build(k)
	option := metric.WithAttributeSet(attribute.NewSet(labels...))
	made := &set{add: []metric.AddOption{option}, record: []metric.RecordOption{option}, labels: labels}
	s.all[k] = made
	return made
}

// one builds the set of a single label.
func one(label string) func(string) []attribute.KeyValue {
	return func(value string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String(label, value)}
	}
}
