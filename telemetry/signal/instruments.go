package signal

import (
	"context"
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
	meter metric.Meter
	all   map[string]*instrument // by the name of the metric
	step  *instrument            // that of MetricStepDuration, which a request records often
}

// NewInstruments creates the instrument of every metric.
func NewInstruments(meter metric.Meter) (*Instruments, error) {
	in := &Instruments{meter: meter, all: map[string]*instrument{}}
	for _, m := range Metrics() {
		i, err := newInstrument(meter, m)
		if err != nil {
			return nil, fmt.Errorf("telemetry: create instruments: %w", err)
		}
		in.all[m.Name] = i
	}
	in.step = in.all[MetricStepDuration]
	in.exportZeros()
	return in, nil
}

// exportZeros exports zeros for rare events. For a query, a counter that first appears as 1
// has no increase, and an alert would miss the first event.
func (in *Instruments) exportZeros() {
	ctx := context.Background()
	for _, t := range [...]memproxy.EventType{memproxy.EventRepair, memproxy.EventChainBreak, memproxy.EventIntegrity} {
		in.all[MetricAuditRecords].add(ctx, 0, string(t))
	}
	in.all[MetricReloads].add(ctx, 0, ResultRefused)
	in.all[MetricLedgerErrors].add(ctx, 0)
}

// Decided counts a decision and its charge. In a sampled trace the exemplar has the
// decision id.
func (in *Instruments) Decided(ctx context.Context, ev *memproxy.Event) {
	reason := memproxy.ReasonCode(NoReason)
	if len(ev.Reasons) > 0 {
		reason = ev.Reasons[0].Code
	}
	if !ev.Verdict.Stops() && slices.ContainsFunc(ev.Reasons, func(r memproxy.Reason) bool { return r.Code == memproxy.PolicyError }) {
		reason = memproxy.PolicyError // distinguishes a failed shadow policy from one that permits
	}
	decisions := in.all[MetricDecisions]
	labels := decisions.of(ev.Backend, string(ev.Kind), ev.Verdict.String(), ev.ShadowVerdict.String(), string(reason))
	if ev.Decision != "" && trace.SpanContextFromContext(ctx).IsSampled() {
		var array [8]attribute.KeyValue
		all := append(append(array[:0], labels.labels...), attribute.String(LabelDecision, ev.Decision))
		decisions.counter.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(all...)))
	} else {
		decisions.counter.Add(ctx, 1, labels.add...)
	}
	if len(ev.Budget) > 0 {
		in.charged(ctx, ev)
	}
}

func (in *Instruments) charged(ctx context.Context, ev *memproxy.Event) {
	result, reason := ResultGranted, memproxy.ReasonCode(NoReason)
	for i := range ev.Reasons {
		switch code := ev.Reasons[i].Code; code {
		case memproxy.BudgetHour, memproxy.BudgetTotal, memproxy.BudgetTenant, memproxy.BudgetNamespace:
			result, reason = ResultRefused, code
		}
	}
	in.all[MetricBudgetCharges].add(ctx, 1, ev.Backend, result, string(reason))
	if ev.Degraded {
		in.all[MetricBudgetDegraded].add(ctx, 1, ev.Backend)
	}
	for i := range ev.Budget {
		l := &ev.Budget[i]
		if l.Limit > 0 {
			in.all[MetricBudgetUsed].record(ctx, float64(l.Used)/float64(l.Limit), string(l.Reason), string(l.Window))
		}
	}
}

// Step records the duration of one step of an admission or a return.
func (in *Instruments) Step(ctx context.Context, step string, d time.Duration) {
	in.step.record(ctx, d.Seconds(), step)
}

// Filtered counts memories that were left out of a response.
func (in *Instruments) Filtered(ctx context.Context, backend string, n int) {
	in.all[MetricFiltered].add(ctx, n, backend)
}

// Unclaimed counts members and headers of responses that no row of the adapter's table
// claims.
func (in *Instruments) Unclaimed(ctx context.Context, backend string, n int) {
	in.all[MetricUnclaimed].add(ctx, n, backend)
}

// LedgerFailed counts a failed ledger call.
func (in *Instruments) LedgerFailed(ctx context.Context) { in.all[MetricLedgerErrors].add(ctx, 1) }

// Observer returns a function that records the durations of a backend's requests, in
// the form of proxy.Options.Observe. The verdict is the decision's, or "pass". The
// route is not a label because there are too many; spans have it. Observer exports a
// zero for the backend's rare event, as exportZeros does for those of the process.
func (in *Instruments) Observer(backend string) func(ctx context.Context, kind, verdict string, status int, d time.Duration) {
	in.all[MetricBudgetDegraded].add(context.Background(), 0, backend)
	return func(ctx context.Context, kind, verdict string, status int, d time.Duration) {
		in.all[MetricRequestDuration].record(ctx, d.Seconds(), backend, kind, verdict, statusClass(status))
	}
}

func statusClass(status int) string {
	if status < 100 || status > 599 {
		return Other
	}
	return [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}[status/100-1]
}

// Recorded counts a durable audit record.
func (in *Instruments) Recorded(ctx context.Context, t memproxy.EventType) {
	in.all[MetricAuditRecords].add(ctx, 1, string(t))
}

// Reloaded counts an attempt to replace the rules.
func (in *Instruments) Reloaded(ctx context.Context, taken bool) {
	result := ResultRefused
	if taken {
		result = ResultOK
	}
	in.all[MetricReloads].add(ctx, 1, result)
}
