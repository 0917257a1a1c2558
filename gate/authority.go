package gate

import (
	"context"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
)

// authorTrust is how far the most trusted of the others is trusted whose words
// the operation would change.
func (r *run) authorTrust() memproxy.PerMille {
	var most memproxy.PerMille
	for i := range r.q.Owners {
		row := &r.q.Owners[i]
		if row.Actor == "" || row.Actor == r.Principal.ID {
			continue
		}
		// A word is worth no more than the confidence it was let in with.
		trust := r.rules.Ceilings.Ceiling(row.Trust, row.Source)
		if row.Confidence > 0 {
			trust = min(trust, row.Confidence)
		}
		most = max(most, trust)
	}
	return most
}

// contest keeps a correction that was not let through against somebody who is
// trusted more: the memory is contested from then on, and readers see it so.
func (g *Gate) contest(ctx context.Context, r *run) {
	arbiter, ok := g.opt.Ledger.(Arbiter)
	if !ok || r.op == nil || !r.enforced() || !r.Decision.Verdict.Stops() || !has(r.Decision.Reasons, memproxy.TrustAuthority) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	for _, target := range slices.Sorted(maps.Keys(r.owners)) {
		row := r.owners[target]
		text := r.newText(target)
		d := memproxy.Dissent{Open: true, Text: text, SHA256: textHash(text), Correction: memproxy.Correction{
			Backend: row.Backend, Kind: row.Kind, ID: row.ID, Tenant: row.Scope.Tenant, Author: row.Actor,
			Corrector: r.Principal.ID, Trust: r.Principal.Trust, Decision: r.Decision.ID, Reason: string(memproxy.TrustAuthority), Time: r.begun,
		}}
		if err := arbiter.Contest(ctx, d); err != nil {
			g.opt.Meter.LedgerFailed(ctx)
			g.opt.Log.ErrorContext(ctx, "a dissent was not kept", "decision", r.Decision.ID, "error", err)
		}
	}
}

// newText is what a correction would have a target say.
func (r *run) newText(target string) string {
	for i := range r.op.Items {
		if it := &r.op.Items[i]; it.Kind == memproxy.ItemContent && (it.Target == target || it.Target == "") {
			return it.Text
		}
	}
	return ""
}
