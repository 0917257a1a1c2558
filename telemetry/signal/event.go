package signal

import (
	"fmt"

	"github.com/memproxy/memproxy"
	"go.opentelemetry.io/otel/attribute"
)

// AppendKey appends the attributes by which log records are searched. The record itself
// has the rest.
func AppendKey(to []attribute.KeyValue, ev *memproxy.Event) []attribute.KeyValue {
	to = append(to,
		attribute.String(AttrDecision, ev.Decision),
		attribute.String(AttrVerdict, ev.Verdict.String()),
		attribute.String(AttrKind, string(ev.Kind)),
		attribute.String(AttrBackend, ev.Backend),
		attribute.String(AttrPrincipalID, ev.Principal.ID),
	)
	if ev.Principal.Tenant != "" {
		to = append(to, attribute.String(AttrPrincipalTenant, ev.Principal.Tenant))
	}
	return appendReasons(to, ev)
}

func appendReasons(to []attribute.KeyValue, ev *memproxy.Event) []attribute.KeyValue {
	if len(ev.Reasons) == 0 {
		return to
	}
	return append(to, attribute.StringSlice(AttrReasons, memproxy.Codes(ev.Reasons)))
}

// AppendEvent appends the attributes of a decision for its span. bulk is set for a bulk
// operation.
func AppendEvent(to []attribute.KeyValue, ev *memproxy.Event, bulk bool) []attribute.KeyValue {
	to = append(to,
		attribute.String(AttrDecision, ev.Decision),
		attribute.String(AttrVerdict, ev.Verdict.String()),
		attribute.String(AttrShadowVerdict, ev.ShadowVerdict.String()),
		attribute.String(AttrBackend, ev.Backend),
		attribute.String(AttrRoute, ev.Route),
		attribute.String(AttrKind, string(ev.Kind)),
		attribute.Int(AttrItems, ev.Items),
		attribute.String(AttrPrincipalID, ev.Principal.ID),
		attribute.String(AttrPrincipalKind, string(ev.Principal.Kind)),
		attribute.String(AttrPrincipalTrust, string(ev.Principal.Trust)),
		attribute.String(AttrPrincipalTenant, ev.Principal.Tenant),
		attribute.String(AttrPolicy, ev.Policy),
	)
	if bulk {
		to = append(to, attribute.Bool(AttrBulk, true))
	}
	if ev.Claimed >= 0 {
		to = append(to, attribute.Int(AttrClaimed, int(ev.Claimed)))
	}
	if ev.Confidence >= 0 {
		to = append(to, attribute.Int(AttrConfidence, int(ev.Confidence)))
	}
	to = appendReasons(to, ev)
	if len(ev.Budget) > 0 {
		to = append(to,
			attribute.Int64(AttrBudgetUsed, ev.Budget[0].Used),
			attribute.Int64(AttrBudgetLimit, ev.Budget[0].Limit),
			attribute.Bool(AttrBudgetDegraded, ev.Degraded))
	}
	if ev.Filtered > 0 {
		to = append(to, attribute.Int(AttrFiltered, ev.Filtered))
	}
	return appendFindings(to, ev.Findings)
}

// appendFindings appends the findings of screening as "rule item:start-end", the worst
// first, and the total risk.
func appendFindings(to []attribute.KeyValue, findings []memproxy.Finding) []attribute.KeyValue {
	if len(findings) == 0 {
		return to
	}
	places := make([]string, len(findings))
	for i, f := range findings {
		places[i] = fmt.Sprintf("%s %d:%d-%d", f.Rule, f.Item, f.Start, f.End)
	}
	return append(to, attribute.Int(AttrRisk, int(memproxy.Risk(findings))), attribute.StringSlice(AttrFindings, places))
}
