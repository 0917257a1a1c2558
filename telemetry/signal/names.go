package signal

// Scope is the instrumentation scope of all signals.
const Scope = "github.com/memproxy/memproxy"

// Names of spans. A request has one server span, named SpanServer and the route id. The
// others are below it. Those of the steps of an admission are in the gate's table.
const (
	SpanServer       = "memproxy "
	SpanForward      = "proxy.forward"
	SpanFilterAnswer = "gate.return"
	SpanRuleOnCall   = "gate.ask"
)

// Attributes of spans and log records.
const (
	AttrDecision        = "memproxy.decision.id"
	AttrVerdict         = "memproxy.verdict"
	AttrShadowVerdict   = "memproxy.would"
	AttrReasons         = "memproxy.reasons"
	AttrPrincipalID     = "memproxy.principal.id"
	AttrPrincipalKind   = "memproxy.principal.kind"
	AttrPrincipalTrust  = "memproxy.principal.trust"
	AttrPrincipalTenant = "memproxy.principal.tenant"
	AttrKind            = "memproxy.operation.kind"
	AttrBulk            = "memproxy.operation.bulk"
	AttrItems           = "memproxy.operation.items"
	AttrBackend         = "memproxy.backend"
	AttrRoute           = "memproxy.route"
	AttrPolicy          = "memproxy.policy.version"
	AttrClaimed         = "memproxy.confidence.claimed"
	AttrConfidence      = "memproxy.confidence.effective"
	AttrBudgetUsed      = "memproxy.budget.used"
	AttrBudgetLimit     = "memproxy.budget.limit"
	AttrBudgetDegraded  = "memproxy.budget.degraded"
	AttrFiltered        = "memproxy.filtered"
	AttrEventType       = "memproxy.event.type"
	AttrCancelled       = "memproxy.cancelled"
	AttrRisk            = "memproxy.screen.risk"
	AttrFindings        = "memproxy.screen.findings"

	// OpenTelemetry semantic conventions for HTTP, 1.30.
	AttrHTTPMethod = "http.request.method"
	AttrHTTPRoute  = "http.route"
	AttrHTTPStatus = "http.response.status_code"
)

// Names of metrics in OpenTelemetry's spelling; Metric.Prometheus has that of Prometheus.
const (
	MetricDecisions       = "memproxy.decisions"
	MetricRequestDuration = "memproxy.request.duration"
	MetricStepDuration    = "memproxy.step.duration"
	MetricFiltered        = "memproxy.filtered"
	MetricUnclaimed       = "memproxy.unclaimed"
	MetricBudgetCharges   = "memproxy.budget.charges"
	MetricBudgetUsed      = "memproxy.budget.used_ratio"
	MetricBudgetDegraded  = "memproxy.budget.degraded"
	MetricAuditRecords    = "memproxy.audit.records"
	MetricAuditLag        = "memproxy.audit.lag.records"
	MetricLedgerErrors    = "memproxy.ledger.errors"
	MetricReloads         = "memproxy.reloads"
	MetricRules           = "memproxy.rules.info"
	MetricHoldAge         = "memproxy.hold.oldest.age"
	MetricBuild           = "memproxy.build.info"
	MetricUnsafe          = "memproxy.unsafe.setting"
	MetricSealed          = "memproxy.backend.sealed"
	MetricUnscreened      = "memproxy.unscreened"
	MetricExports         = "memproxy.telemetry.exports"
	MetricConnections     = "memproxy.connections.turned_away"
	MetricInFlight        = "memproxy.in_flight"
	MetricInFlightRefused = "memproxy.in_flight.refused"
)

// LabelDecision is the label with the decision id, on exemplars only.
const LabelDecision = "decision_id"

// Values of the label result.
const (
	ResultGranted = "granted" // a charge
	ResultRefused = "refused" // a charge, new rules, or a text by a model's limits
	ResultOK      = "ok"      // new rules in force, or an export
	ResultFailed  = "failed"  // an export, or a model
	ResultEvicted = "evicted" // a connection without an accepted caller, or an idle one, closed to make room
	ResultOffered = "offered" // to the exporter; if neither ok nor failed, it waits or was dropped because the queue was full
)

// Values of the label state.
const (
	StateQueued   = "queued"   // waits for the disk
	StateUnsigned = "unsigned" // durable, waits for a signed checkpoint
)

// Other replaces the label values of combinations above maxSets.
const Other = "other"

// NoReason is the label reason of a decision without a reason.
const NoReason = "none"
