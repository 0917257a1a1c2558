package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// bound checks every identity that the payload names against what the
// principal may name.
func bound(ctx context.Context, r *run) error {
	r.mine(ctx)
	if refused := access.Bounds(&r.Principal, r.op); len(refused) > 0 {
		r.refuse(StatusForbidden, refused...)
	}
	return nil
}

// mine lets a limited principal name what it made itself: an agent that it has
// just created. The ledger knows who that was. Names of the configuration come
// first, so that nobody is looked up for ordinary requests.
func (r *run) mine(ctx context.Context) {
	if r.dry() {
		return // whoever explains has no ledger at hand that knows
	}
	var ids []string
	for i := range r.op.Claims {
		c := &r.op.Claims[i]
		if limit := r.Principal.May(c.Dim); c.Op == memproxy.ClaimIs && c.Dim != memproxy.DimActor {
			for _, v := range c.Values {
				if !limit.Allows(v) {
					ids = append(ids, v)
				}
			}
		}
	}
	if len(ids) == 0 {
		return
	}
	known := r.lookups()
	if err := known.need(ctx, append(known.named(r.op), known.keys(memproxy.TargetMemory, ids...)...)...); err != nil {
		return // what the configuration does not list is then refused
	}
	for i := range r.op.Claims {
		c := &r.op.Claims[i]
		for _, v := range c.Values {
			if row := known.owner(memproxy.TargetMemory, v); c.Op == memproxy.ClaimIs && slices.Contains(ids, v) && access.MadeBy(&r.Principal, row) {
				r.Principal = r.Principal.Naming(c.Dim, v)
			}
		}
	}
}
