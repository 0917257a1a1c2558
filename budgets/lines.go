package budgets

import (
	"github.com/memproxy/memproxy"
)

// Lines are the budgets that a write of p draws on: its own hour and total,
// its tenant's, each field's, and the soft line that tells of a rush. A
// correction writes nothing new, so it has no total lines.
func Lines(l memproxy.Limits, p memproxy.Principal, kind memproxy.Kind, fields []string) []memproxy.Line {
	own := l.Default
	if p.Trust == memproxy.TrustAnonymous {
		own = l.Anonymous
	}
	if o, ok := l.Overrides[p.ID]; ok {
		own = inherit(o, own)
	}
	out := make([]memproxy.Line, 0, 6)
	out = pair(out, kind, "principal/"+p.ID, own, memproxy.BudgetHour, memproxy.BudgetTotal)
	if t, ok := l.Tenants[p.Tenant]; ok && p.Tenant != "" {
		out = pair(out, kind, "tenant/"+p.Tenant, t, memproxy.BudgetTenant, memproxy.BudgetTenant)
	} else if t, ok := l.Tenants["*"]; ok && p.Tenant != "" {
		out = pair(out, kind, "tenant/"+p.Tenant, t, memproxy.BudgetTenant, memproxy.BudgetTenant)
	}
	for _, f := range fields {
		if n, ok := l.Namespaces[f]; ok {
			out = pair(out, kind, "namespace/"+f, n, memproxy.BudgetNamespace, memproxy.BudgetNamespace)
		}
	}
	if l.RapidPerMinute > 0 {
		out = append(out, memproxy.Line{Reason: memproxy.RapidWrites, Key: "principal/" + p.ID, Window: memproxy.WindowMinute, Limit: l.RapidPerMinute, Soft: true})
	}
	return out
}

func inherit(o, from memproxy.WriteLimit) memproxy.WriteLimit {
	if o.PerHour == 0 {
		o.PerHour = from.PerHour
	}
	if o.Total == 0 {
		o.Total = from.Total
	}
	return o
}

func pair(out []memproxy.Line, kind memproxy.Kind, key string, w memproxy.WriteLimit, hour, total memproxy.ReasonCode) []memproxy.Line {
	if w.PerHour > 0 {
		out = append(out, memproxy.Line{Reason: hour, Key: key, Window: memproxy.WindowHour, Limit: w.PerHour})
	}
	if w.Total > 0 && kind != memproxy.Correct {
		out = append(out, memproxy.Line{Reason: total, Key: key, Window: memproxy.WindowTotal, Limit: w.Total})
	}
	return out
}
