package gate

import (
	"context"
	"strings"

	"github.com/memproxy/memproxy"
)

// unclaimed: the request names nobody whom nobody knows, or it will not be sent.
// What would only have been refused is sent.
func unclaimed(r *run) bool {
	return r.op == nil || r.dry || len(r.unbound) == 0 || r.verdict.Stops() && r.enforced()
}

// bind makes the names that a write is the first to use its tenant's. It is
// done before the write leaves: of two tenants that use a name at once, one
// gets it, and the other's write is refused.
func bind(ctx context.Context, r *run) error {
	var rows []memproxy.Ownership
	for _, id := range r.unbound {
		actor := r.Principal.ID
		if d, name, _ := strings.Cut(id, ":"); r.exists(memproxy.Dimension(d), name) {
			if r.verdict.Stops() {
				continue // it may be another tenant's: a write that would have been refused does not take it
			}
			actor = "" // somebody made it, around the proxy
		}
		rows = append(rows, memproxy.Ownership{
			Backend: r.op.Backend, Kind: memproxy.TargetEntity, ID: id, Scope: memproxy.Scope{Tenant: r.Principal.Tenant},
			Actor: actor, Trust: r.Principal.Trust, Written: r.begun, // no decision: that is for what it wrote
		})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.g.opt.RecordTimeout)
	defer cancel()
	standing, err := r.g.opt.Ledger.Bind(ctx, rows...)
	if err != nil {
		r.g.release(ctx, r.Admission)
		return err
	}
	for _, row := range standing {
		if row.Scope.Tenant != r.Principal.Tenant {
			r.missing("")
		}
	}
	if r.verdict.Stops() {
		r.g.release(ctx, r.Admission)
	}
	return nil
}
