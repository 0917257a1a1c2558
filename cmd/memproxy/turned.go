package main

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memproxy/memproxy/face"
)

// turnedAway counts the connections that listeners refuse or close for others,
// for processes without the sidecar's telemetry. The metric is the sidecar's.
type turnedAway struct {
	mu        sync.Mutex
	listeners map[string]*face.Listener
}

// of has a listener counted, by its name.
func (t *turnedAway) of(name string, ln *face.Listener) *face.Listener {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listeners == nil {
		t.listeners = map[string]*face.Listener{}
	}
	t.listeners[name] = ln
	return ln
}

func turnedAwayDesc() *prometheus.Desc {
	return prometheus.NewDesc("memproxy_connections_turned_away_total", "Connections over a listener's bounds: refused, or evicted, which is closed for another.", []string{"listener", "result"}, nil)
}

// Describe implements prometheus.Collector.
func (t *turnedAway) Describe(out chan<- *prometheus.Desc) { out <- turnedAwayDesc() }

// Collect implements prometheus.Collector.
func (t *turnedAway) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, ln := range t.listeners {
		refused, evicted := ln.Turned()
		out <- prometheus.MustNewConstMetric(turnedAwayDesc(), prometheus.CounterValue, float64(refused), name, "refused")
		out <- prometheus.MustNewConstMetric(turnedAwayDesc(), prometheus.CounterValue, float64(evicted), name, "evicted")
	}
}
