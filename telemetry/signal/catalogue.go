package signal

import (
	_ "embed" // the metrics
	"strconv"
	"strings"
)

// Kind is the type of a metric's instrument.
type Kind string

// The instrument kinds.
const (
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
	Gauge     Kind = "gauge"
)

// Metric describes a metric.
type Metric struct {
	Name       string // OpenTelemetry's spelling
	Prometheus string // the name that the exporter derives
	Kind       Kind
	Observed   bool   // of a counter: its owner counts, and it is read when metrics are collected
	Unit       string // UCUM
	Labels     []string
	Meaning    string
	Buckets    []float64 // of a histogram
}

// Attributes returns the key of every attribute of spans and log records, which
// docs/telemetry.md describes. No other attribute is exported.
func Attributes() []string {
	return []string{
		AttrDecision, AttrVerdict, AttrShadowVerdict, AttrReasons, AttrPrincipalID, AttrPrincipalKind,
		AttrPrincipalTrust, AttrPrincipalTenant, AttrKind, AttrBulk, AttrItems, AttrBackend, AttrRoute,
		AttrPolicy, AttrClaimed, AttrConfidence, AttrBudgetUsed, AttrBudgetLimit, AttrBudgetDegraded,
		AttrFiltered, AttrRisk, AttrFindings, AttrEventType, AttrCancelled, AttrHTTPMethod,
		AttrHTTPRoute, AttrHTTPStatus,
	}
}

// listed has a line for each metric, with its fields separated by bars and "-" for none:
//
//	Name | Prometheus | Kind, and whether it is Observed | Unit | Labels | Buckets | Meaning
//
//go:embed metrics.txt
var listed string

// Metrics returns every metric.
func Metrics() (all []Metric) {
	for line := range strings.Lines(listed) {
		f := strings.Split(strings.TrimSpace(line), " | ")
		kind, read, _ := strings.Cut(f[2], " ")
		m := Metric{
			Name: f[0], Prometheus: f[1], Kind: Kind(kind), Observed: read == "read", Unit: strings.Trim(f[3], "-"),
			Labels: strings.Fields(strings.Trim(f[4], "-")), Meaning: f[6],
		}
		for _, bound := range strings.Fields(strings.Trim(f[5], "-")) {
			n, _ := strconv.ParseFloat(bound, 64) // TestCatalogueIsComplete reads the table
			m.Buckets = append(m.Buckets, n)
		}
		all = append(all, m)
	}
	return all
}
