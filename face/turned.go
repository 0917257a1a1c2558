package face

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// TurnedAway counts the connections that listeners refuse or close for others,
// for processes without the sidecar's telemetry. The metric is the sidecar's.
type TurnedAway struct {
	mu        sync.Mutex
	listeners map[string]*Listener
}

// Of has a listener counted, by its name.
func (t *TurnedAway) Of(name string, ln *Listener) *Listener {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listeners == nil {
		t.listeners = map[string]*Listener{}
	}
	t.listeners[name] = ln
	return ln
}

func turnedDesc() *prometheus.Desc {
	return prometheus.NewDesc("memproxy_connections_turned_away_total", "Connections over a listener's bounds: refused, or evicted, which is closed for another.", []string{"listener", "result"}, nil)
}

// Describe implements prometheus.Collector.
func (t *TurnedAway) Describe(out chan<- *prometheus.Desc) { out <- turnedDesc() }

// Collect implements prometheus.Collector.
func (t *TurnedAway) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, ln := range t.listeners {
		refused, evicted := ln.Turned()
		out <- prometheus.MustNewConstMetric(turnedDesc(), prometheus.CounterValue, float64(refused), name, "refused")
		out <- prometheus.MustNewConstMetric(turnedDesc(), prometheus.CounterValue, float64(evicted), name, "evicted")
	}
}
