package signal

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

// Metrics returns every metric.
func Metrics() []Metric {
	return []Metric{
		{Name: MetricDecisions, Prometheus: "memproxy_decisions_total", Kind: Counter, Unit: "{decision}",
			Labels:  []string{"backend", "kind", "verdict", "would", "reason"},
			Meaning: "Decisions by verdict and first reason. Exemplars carry trace and decision id."},
		{Name: MetricRequestDuration, Prometheus: "memproxy_request_duration_seconds", Kind: Histogram, Unit: "s",
			Labels:  []string{"backend", "kind", "verdict", "status"},
			Meaning: "Time from request to end of response, including the backend.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}},
		{Name: MetricStepDuration, Prometheus: "memproxy_step_duration_seconds", Kind: Histogram, Unit: "s",
			Labels:  []string{"step"},
			Meaning: "Time of one step of the gate.",
			Buckets: []float64{.000005, .00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .1, .5, 1, 5}},
		{Name: MetricFiltered, Prometheus: "memproxy_filtered_total", Kind: Counter, Unit: "{memory}",
			Labels: []string{"backend"}, Meaning: "Memories left out of responses."},
		{Name: MetricUnclaimed, Prometheus: "memproxy_unclaimed_total", Kind: Counter, Unit: "{member}",
			Labels: []string{"backend"}, Meaning: "Members and headers of responses that the adapter's table does not claim."},
		{Name: MetricBudgetCharges, Prometheus: "memproxy_budget_charges_total", Kind: Counter, Unit: "{charge}",
			Labels: []string{"backend", "result", "reason"}, Meaning: "Charges on write budgets, with the line that refused."},
		{Name: MetricBudgetUsed, Prometheus: "memproxy_budget_used_ratio", Kind: Histogram, Unit: "",
			Labels:  []string{"reason", "window"},
			Meaning: "Used share of a budget line's limit after a charge.",
			Buckets: []float64{.1, .25, .5, .75, .8, .9, .95, 1}},
		{Name: MetricBudgetDegraded, Prometheus: "memproxy_budget_degraded_total", Kind: Counter, Unit: "{charge}",
			Labels: []string{"backend"}, Meaning: "Charges on a local share of the limits, because the shared store was unavailable."},
		{Name: MetricAuditRecords, Prometheus: "memproxy_audit_records_total", Kind: Counter, Unit: "{record}",
			Labels: []string{"type"}, Meaning: "Durable audit records by event type."},
		{Name: MetricAuditLag, Prometheus: "memproxy_audit_lag_records", Kind: Gauge, Unit: "{record}",
			Labels: []string{"state"}, Meaning: "Audit events that wait for the disk (queued) or for a signed checkpoint (unsigned)."},
		{Name: MetricLedgerErrors, Prometheus: "memproxy_ledger_errors_total", Kind: Counter, Unit: "{error}",
			Meaning: "Ledger calls that failed."},
		{Name: MetricUnscreened, Prometheus: "memproxy_unscreened_total", Kind: Counter, Observed: true, Unit: "{text}",
			Labels: []string{"layer", "result"}, Meaning: "Texts that a model of screening (judge, similar) did not look at, because it failed or its limits refused the text."},
		{Name: MetricReloads, Prometheus: "memproxy_reloads_total", Kind: Counter, Unit: "{reload}",
			Labels: []string{"result"}, Meaning: "Attempts to replace the rules."},
		{Name: MetricRules, Prometheus: "memproxy_rules_info", Kind: Gauge, Unit: "",
			Labels: []string{"version"}, Meaning: "1, with the version of the rules in force."},
		{Name: MetricBuild, Prometheus: "memproxy_build_info", Kind: Gauge, Unit: "",
			Labels: []string{"version", "go_version"}, Meaning: "1, with the version of the program."},
		{Name: MetricUnsafe, Prometheus: "memproxy_unsafe_setting", Kind: Gauge, Unit: "",
			Labels: []string{"setting"}, Meaning: "1 for each setting that weakens production."},
		{Name: MetricSealed, Prometheus: "memproxy_backend_sealed", Kind: Gauge, Unit: "",
			Labels: []string{"backend"}, Meaning: "1 once everything that a backend held at the first start was recorded, so that later out-of-band additions are detected; 0 until then."},
		{Name: MetricHoldAge, Prometheus: "memproxy_hold_oldest_age_seconds", Kind: Gauge, Unit: "s",
			Meaning: "How long the oldest write that waits for review has waited; 0 if none waits. Read once a minute."},
		{Name: MetricExports, Prometheus: "memproxy_telemetry_exports_total", Kind: Counter, Observed: true, Unit: "{item}",
			Labels: []string{"signal", "result"}, Meaning: "Spans, log records and metric batches handed to the collector."},
		{Name: MetricConnections, Prometheus: "memproxy_connections_turned_away_total", Kind: Counter, Observed: true, Unit: "{connection}",
			Labels: []string{"listener", "result"}, Meaning: "Connections beyond a listener's limits: refused, or evicted (closed for a new one because no caller was accepted on them or they were idle); at the processor, refused requests."},
		{Name: MetricInFlight, Prometheus: "memproxy_in_flight_bytes", Kind: Gauge, Unit: "By",
			Labels: []string{"listener"}, Meaning: "Bytes of bodies and responses in memory."},
		{Name: MetricInFlightRefused, Prometheus: "memproxy_in_flight_refused_total", Kind: Counter, Observed: true, Unit: "{request}",
			Labels: []string{"listener"}, Meaning: "Requests refused because there was no room for their body or response."},
	}
}
