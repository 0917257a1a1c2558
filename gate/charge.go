package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
)

// charge draws the write budgets. What is forwarded pays, and so does what is
// held, for somebody has to look at it: its hour when it is held, whatever
// becomes of it, and its totals once it is approved and sent.
func charge(ctx context.Context, r *run) error {
	c := costs(r)
	switch {
	case r.keeps():
		c.Lines = slices.DeleteFunc(c.Lines, func(l memproxy.Line) bool { return l.Window == memproxy.WindowTotal })
	case r.paid != nil:
		c.ID += "/approved"
		r.paid.Lines = slices.DeleteFunc(slices.Clone(c.Lines), func(l memproxy.Line) bool { return l.Window == memproxy.WindowTotal })
		c.Lines = slices.DeleteFunc(c.Lines, func(l memproxy.Line) bool { return l.Window != memproxy.WindowTotal })
	}
	if len(c.Lines) == 0 {
		if r.paid != nil && !r.dry() {
			r.bill = &bill{charge: c, paid: r.paid}
		}
		return nil
	}
	if r.dry() {
		r.bill = &bill{charge: c}
		return nil
	}
	allowance, err := r.g.opt.Budget.Charge(ctx, c)
	if err != nil {
		return err
	}
	r.Decision.Allowance = &allowance
	if allowance.Granted {
		r.bill = &bill{charge: c, paid: r.paid}
		return nil
	}
	overBudget(r, &allowance)
	return nil
}

// costs is what the write draws from the budgets.
func costs(r *run) memproxy.Charge {
	return memproxy.Charge{
		ID: r.Decision.ID, Tenant: r.Principal.Tenant, Cost: int64(r.op.Cost), Time: r.begun,
		Lines: r.rules.Lines(r.Principal, r.op.Kind, r.endUser(), content.Governed(r.op)),
	}
}

// overdrawn refuses a write that the budgets would refuse, before it is screened:
// screening costs more than anything else that memproxy does. What it is charged
// is said later, by charge. Totals count too, although a held write draws on them
// only when it is approved.
func overdrawn(ctx context.Context, r *run) error {
	if r.dry() || r.held != nil || !r.enforced() || gratis(r) {
		return nil
	}
	c := costs(r)
	if c.Peek = true; len(c.Lines) == 0 {
		return nil
	}
	allowance, err := r.g.opt.Budget.Charge(ctx, c)
	if err == nil && !allowance.Granted {
		r.Decision.Allowance = &allowance
		overBudget(r, &allowance)
	}
	return err
}

// overBudget refuses what an allowance does not grant.
func overBudget(r *run, allowance *memproxy.Allowance) {
	reason := memproxy.Reason{Code: memproxy.BudgetHour, Detail: "the write budget is used up"}
	if i := allowance.Refused; i >= 0 && i < len(allowance.Lines) {
		l := &allowance.Lines[i]
		reason.Code, reason.Rule, reason.Detail = l.Reason, l.Key, usedUp(&r.Principal, l, r.op.Cost)
	}
	r.verdict.refuse(StatusTooMany, reason)
	if allowance.Degraded {
		r.verdict.reasons = append(r.verdict.reasons, memproxy.Reason{Code: memproxy.BudgetDegraded, Detail: "the shared budget store is away; a local share applies"})
	}
}

// usedUp says which budget is used up: the number, when there is room again, and
// the setting.
func usedUp(p *memproxy.Principal, l *memproxy.LineState, cost int) string {
	whose, table := "of this caller", "budgets.default, or in budgets.overrides for "+memproxy.InertID(p.Named())
	switch kind, name, _ := strings.Cut(l.Key, "/"); {
	case kind == "tenant":
		whose, table = "of this tenant", "budgets.tenants"
	case kind == "namespace":
		whose, table = "in this field", "budgets.namespaces for "+name
	case p.Trust == memproxy.TrustAnonymous:
		table = "budgets.anonymous"
	case kind == "user":
		whose = "for this end user"
	}
	within, room, setting := "in all", "deletions make room", "writes_total"
	if l.Window == memproxy.WindowHour {
		within, room, setting = "within an hour", "there is room at "+l.Reset.UTC().Format(time.RFC3339), "writes_per_hour"
	}
	return fmt.Sprintf("the write budget is used up: %d of %d memories %s %s, and this writes %d; %s; the number is %s in %s",
		l.Used, l.Limit, whose, within, cost, room, setting, table)
}
