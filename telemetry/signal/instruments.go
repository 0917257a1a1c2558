package signal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Instruments record the metrics. They implement gate.Meter, are safe for
// concurrent use, and never block.
type Instruments struct {
	meter  metric.Meter
	gauges map[string]metric.Observable

	decisions, filtered, unclaimed, charges, degraded metric.Int64Counter
	records, ledgerErrors, reloads                    metric.Int64Counter
	request, step, used                               metric.Float64Histogram

	byDecision *sets[decisionKey]
	byRequest  *sets[requestKey]
	byCharge   *sets[chargeKey]
	byLine     *sets[lineKey]
	byStep     *sets[string]
	byBackend  *sets[string]
	byType     *sets[string]
	byResult   *sets[string]
}

type decisionKey struct {
	backend        string
	kind           memproxy.Kind
	verdict, would memproxy.Verdict
	reason         memproxy.ReasonCode
}

type requestKey struct{ backend, kind, verdict, status string }

type chargeKey struct {
	backend, result string
	reason          memproxy.ReasonCode
}

type lineKey struct {
	reason memproxy.ReasonCode
	window memproxy.Window
}

// NewInstruments makes every metric's instrument.
func NewInstruments(meter metric.Meter) (*Instruments, error) {
	in := &Instruments{meter: meter, gauges: map[string]metric.Observable{}}
	counters := map[string]*metric.Int64Counter{
		MetricDecisions: &in.decisions, MetricFiltered: &in.filtered, MetricUnclaimed: &in.unclaimed, MetricBudgetCharges: &in.charges,
		MetricBudgetDegraded: &in.degraded, MetricAuditRecords: &in.records,
		MetricLedgerErrors: &in.ledgerErrors, MetricReloads: &in.reloads,
	}
	histograms := map[string]*metric.Float64Histogram{
		MetricRequestDuration: &in.request, MetricStepDuration: &in.step, MetricBudgetUsed: &in.used,
	}
	var errs []error
	for _, m := range Metrics() {
		var err error
		if c, ok := counters[m.Name]; ok {
			*c, err = meter.Int64Counter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Meaning))
		} else if h, ok := histograms[m.Name]; ok {
			*h, err = meter.Float64Histogram(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Meaning),
				metric.WithExplicitBucketBoundaries(m.Buckets...))
		} else {
			err = in.observable(m)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("telemetry: make instruments: %w", err)
	}
	in.byDecision = newSets(decisionKey{backend: Other, reason: Other}, decisionLabels)
	in.byRequest = newSets(requestKey{Other, Other, Other, Other}, func(k requestKey) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String(LabelBackend, k.backend), attribute.String(LabelKind, k.kind),
			attribute.String(LabelVerdict, k.verdict), attribute.String(LabelStatus, k.status)}
	})
	in.byCharge = newSets(chargeKey{Other, Other, Other}, func(k chargeKey) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String(LabelBackend, k.backend), attribute.String(LabelResult, k.result),
			attribute.String(LabelReason, string(k.reason))}
	})
	in.byLine = newSets(lineKey{Other, Other}, func(k lineKey) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String(LabelReason, string(k.reason)), attribute.String(LabelWindow, string(k.window))}
	})
	in.byStep = newSets(Other, one(LabelStep))
	in.byBackend = newSets(Other, one(LabelBackend))
	in.byType = newSets(Other, one(LabelType))
	in.byResult = newSets(Other, one(LabelResult))
	in.begin()
	return in, nil
}

// begin exports zeros for rare events. A counter that first appears as 1 has no
// increase for a query, and an alert would miss the first event.
func (in *Instruments) begin() {
	ctx := context.Background()
	for _, t := range [...]memproxy.EventType{memproxy.EventRepair, memproxy.EventChainBreak, memproxy.EventIntegrity} {
		in.records.Add(ctx, 0, in.byType.of(string(t)).add...)
	}
	in.reloads.Add(ctx, 0, in.byResult.of(ResultRefused).add...)
	in.ledgerErrors.Add(ctx, 0)
}

func decisionLabels(k decisionKey) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String(LabelBackend, k.backend), attribute.String(LabelKind, string(k.kind)),
		attribute.String(LabelVerdict, k.verdict.String()), attribute.String(LabelWould, k.would.String()),
		attribute.String(LabelReason, string(k.reason)),
	}
}

// Decided counts a decision and its charge. In a sampled trace the decision id
// goes along, for the exemplar.
func (in *Instruments) Decided(ctx context.Context, ev *memproxy.Event) {
	k := decisionKey{backend: ev.Backend, kind: ev.Kind, verdict: ev.Verdict, would: ev.Would, reason: NoReason}
	if len(ev.Reasons) > 0 {
		k.reason = ev.Reasons[0].Code
	}
	if !ev.Verdict.Stops() && slices.ContainsFunc(ev.Reasons, func(r memproxy.Reason) bool { return r.Code == memproxy.PolicyError }) {
		k.reason = memproxy.PolicyError // a shadow policy that failed must not look like one that permits
	}
	labels := in.byDecision.of(k)
	if ev.Decision != "" && trace.SpanContextFromContext(ctx).IsSampled() {
		var array [8]attribute.KeyValue
		all := append(append(array[:0], labels.labels...), attribute.String(LabelDecision, ev.Decision))
		in.decisions.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(all...)))
	} else {
		in.decisions.Add(ctx, 1, labels.add...)
	}
	if len(ev.Budget) > 0 {
		in.charged(ctx, ev)
	}
}

// charged counts a charge and how full its lines are.
func (in *Instruments) charged(ctx context.Context, ev *memproxy.Event) {
	k := chargeKey{ev.Backend, ResultGranted, NoReason}
	for i := range ev.Reasons {
		switch code := ev.Reasons[i].Code; code {
		case memproxy.BudgetHour, memproxy.BudgetTotal, memproxy.BudgetTenant, memproxy.BudgetNamespace, memproxy.BudgetRead:
			k.result, k.reason = ResultRefused, code
		}
	}
	in.charges.Add(ctx, 1, in.byCharge.of(k).add...)
	if ev.Degraded {
		in.degraded.Add(ctx, 1, in.byBackend.of(ev.Backend).add...)
	}
	for i := range ev.Budget {
		l := &ev.Budget[i]
		if l.Limit > 0 {
			in.used.Record(ctx, float64(l.Used)/float64(l.Limit), in.byLine.of(lineKey{l.Reason, l.Window}).record...)
		}
	}
}

// Step times one step of an admission or a return.
func (in *Instruments) Step(ctx context.Context, step string, d time.Duration) {
	in.step.Record(ctx, d.Seconds(), in.byStep.of(step).record...)
}

// Filtered counts memories left out of an answer.
func (in *Instruments) Filtered(ctx context.Context, backend string, n int) {
	in.filtered.Add(ctx, int64(n), in.byBackend.of(backend).add...)
}

// Unclaimed counts members and headers of answers that no row claims.
func (in *Instruments) Unclaimed(ctx context.Context, backend string, n int) {
	in.unclaimed.Add(ctx, int64(n), in.byBackend.of(backend).add...)
}

// LedgerFailed counts a ledger call that failed.
func (in *Instruments) LedgerFailed(ctx context.Context) { in.ledgerErrors.Add(ctx, 1) }

// Request times a whole request. Verdict is the decision's, or "pass".
func (in *Instruments) Request(ctx context.Context, backend, kind, verdict string, status int, d time.Duration) {
	in.request.Record(ctx, d.Seconds(), in.byRequest.of(requestKey{backend, kind, verdict, class(status)}).record...)
}

// Observer is Request for one backend, in the form that proxy.Options.Observe
// takes. The route is not a label: there are many, and spans have it. It exports the
// zero of the backend's rare event, as begin does for those of the process.
func (in *Instruments) Observer(backend string) func(ctx context.Context, route, kind, verdict string, status int, d time.Duration) {
	in.degraded.Add(context.Background(), 0, in.byBackend.of(backend).add...)
	return func(ctx context.Context, _, kind, verdict string, status int, d time.Duration) {
		in.Request(ctx, backend, kind, verdict, status, d)
	}
}

func class(status int) string {
	if status < 100 || status > 599 {
		return Other
	}
	return [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}[status/100-1]
}

// Recorded counts a durable audit record.
func (in *Instruments) Recorded(ctx context.Context, t memproxy.EventType) {
	in.records.Add(ctx, 1, in.byType.of(string(t)).add...)
}

// Reloaded counts an attempt to replace the rules.
func (in *Instruments) Reloaded(ctx context.Context, taken bool) {
	result := ResultRefused
	if taken {
		result = ResultOK
	}
	in.reloads.Add(ctx, 1, in.byResult.of(result).add...)
}
