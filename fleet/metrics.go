package fleet

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memproxy/memproxy/envoy/xds"
)

// fleetMetrics collects the control plane's metrics from its state.
type fleetMetrics struct{ server *xds.Server }

var (
	fleetStoreUp   = prometheus.NewDesc("memproxy_fleet_store_up", "1 while the directory of releases can be read.", nil, nil)
	fleetFaults    = prometheus.NewDesc("memproxy_fleet_release_faults", "Releases that cannot be offered.", nil, nil)
	fleetSidecars  = prometheus.NewDesc("memproxy_fleet_sidecars", "Connected sidecars; behind: not on their release; unassigned: no release is for them.", []string{"state"}, nil)
	fleetRelease   = prometheus.NewDesc("memproxy_fleet_release_info", "1, with what a release is: current, rolling, stopped or past.", []string{"release", "channel", "state"}, nil)
	fleetOn        = prometheus.NewDesc("memproxy_fleet_release_sidecars", "Sidecars by release: assigned, running, refused.", []string{"release", "state"}, nil)
	fleetDecisions = prometheus.NewDesc("memproxy_fleet_release_decisions_total", "Decisions that sidecars reported, by release: all, refused, failed.", []string{"release", "result"}, nil)
)

// Describe implements prometheus.Collector.
func (m fleetMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{fleetStoreUp, fleetFaults, fleetSidecars, fleetRelease, fleetOn, fleetDecisions} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m fleetMetrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	decisions := func(n uint64, release, result string) {
		out <- prometheus.MustNewConstMetric(fleetDecisions, prometheus.CounterValue, float64(n), release, result)
	}
	st := m.server.Status()
	up := 1.0
	if st.Away != "" {
		up = 0
	}
	gauge(fleetStoreUp, up)
	gauge(fleetFaults, float64(len(st.Faults)))
	gauge(fleetSidecars, float64(st.Connected), "connected")
	gauge(fleetSidecars, float64(st.Behind), "behind")
	gauge(fleetSidecars, float64(st.Unassigned), "unassigned")
	for _, r := range st.Releases {
		gauge(fleetRelease, 1, r.Name, r.Channel, r.State)
		gauge(fleetOn, float64(r.Assigned), r.Name, "assigned")
		gauge(fleetOn, float64(r.Running), r.Name, "running")
		gauge(fleetOn, float64(r.Refused), r.Name, "refused")
		decisions(r.Tally.Decisions, r.Name, "all")
		decisions(r.Tally.Refused, r.Name, "refused")
		decisions(r.Tally.Errors, r.Name, "failed")
	}
}
