package frontend

import "github.com/prometheus/client_golang/prometheus"

// CountTurnedAway counts the connections that a listener refuses or closes for others,
// for processes without the sidecar's telemetry. The metric is the same as the
// sidecar's.
func CountTurnedAway(to prometheus.Registerer, name string, ln *Listener) *Listener {
	for i, result := range [...]string{"refused", "evicted"} {
		to.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "memproxy_connections_turned_away_total",
			Help:        "Connections over a listener's bounds: refused, or evicted, which is closed for another.",
			ConstLabels: prometheus.Labels{"listener": name, "result": result},
		}, func() float64 {
			refused, evicted := ln.Turned()
			return float64([...]int64{refused, evicted}[i])
		}))
	}
	return ln
}
