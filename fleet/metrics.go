package fleet

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memproxy/memproxy/envoy/xds"
)

// fleetMetrics collects the control plane's metrics from its state.
type fleetMetrics struct{ server *xds.Server }

// fleetMetric describes a metric.
type fleetMetric struct {
	name, help string
	labels     []string
	kind       prometheus.ValueType
}

func (m fleetMetric) desc() *prometheus.Desc {
	return prometheus.NewDesc(m.name, m.help, m.labels, nil)
}

func (m fleetMetric) value(v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.desc(), m.kind, v, labels...)
}

var (
	fleetStoreUp   = fleetMetric{"memproxy_fleet_store_up", "1 while the directory of releases can be read.", nil, prometheus.GaugeValue}
	fleetFaults    = fleetMetric{"memproxy_fleet_release_faults", "Releases that cannot be offered.", nil, prometheus.GaugeValue}
	fleetSidecars  = fleetMetric{"memproxy_fleet_sidecars", "Connected sidecars; behind: not on their release; unassigned: no release is for them.", []string{"state"}, prometheus.GaugeValue}
	fleetRelease   = fleetMetric{"memproxy_fleet_release_info", "1, with what a release is: current, rolling, stopped or past.", []string{"release", "channel", "state"}, prometheus.GaugeValue}
	fleetOn        = fleetMetric{"memproxy_fleet_release_sidecars", "Sidecars by release: assigned, running, refused.", []string{"release", "state"}, prometheus.GaugeValue}
	fleetDecisions = fleetMetric{"memproxy_fleet_release_decisions_total", "Decisions that sidecars reported, by release: all, refused, failed.", []string{"release", "result"}, prometheus.CounterValue}
)

// Describe implements prometheus.Collector.
func (m fleetMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]fleetMetric{fleetStoreUp, fleetFaults, fleetSidecars, fleetRelease, fleetOn, fleetDecisions} {
		out <- d.desc()
	}
}

// Collect implements prometheus.Collector.
func (m fleetMetrics) Collect(out chan<- prometheus.Metric) {
	st := m.server.Status()
	up := 1.0
	if st.Away != "" {
		up = 0
	}
	out <- fleetStoreUp.value(up)
	out <- fleetFaults.value(float64(len(st.Faults)))
	out <- fleetSidecars.value(float64(st.Connected), "connected")
	out <- fleetSidecars.value(float64(st.Behind), "behind")
	out <- fleetSidecars.value(float64(st.Unassigned), "unassigned")
	for _, r := range st.Releases {
		out <- fleetRelease.value(1, r.Name, r.Channel, r.State)
		out <- fleetOn.value(float64(r.Assigned), r.Name, "assigned")
		out <- fleetOn.value(float64(r.Running), r.Name, "running")
		out <- fleetOn.value(float64(r.Refused), r.Name, "refused")
		out <- fleetDecisions.value(float64(r.Tally.Decisions), r.Name, "all")
		out <- fleetDecisions.value(float64(r.Tally.Refused), r.Name, "refused")
		out <- fleetDecisions.value(float64(r.Tally.Errors), r.Name, "failed")
	}
}
