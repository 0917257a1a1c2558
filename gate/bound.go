package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

// bound checks every identity that the payload names against what the
// principal may name. The payload never says who the caller is; here it is
// held to who the caller is.
func bound(ctx context.Context, r *run) error {
	op := r.op
	r.mine(ctx)
	for i := range op.Claims {
		c := &op.Claims[i]
		limit := r.Principal.May(c.Dim)
		if limit.All {
			continue
		}
		if c.Op != memproxy.ClaimIs {
			r.refuse(StatusForbidden, memproxy.Reason{
				Code: memproxy.IdentityBroad, Pointer: c.Pointer,
				Detail: "a wildcard, an exclusion or an unknown operator on " + string(c.Dim) + " reaches past what this caller may name; " + setting(c.Dim) + `: "*" of its entry under identity allows it`,
			})
			continue
		}
		for _, v := range c.Values {
			if !limit.Allows(v) {
				r.refuse(StatusForbidden, memproxy.Reason{
					Code: claimReason(c.Dim), Pointer: c.Pointer,
					Detail: "the payload names " + article(c.Dim) + " that this caller may not act for; " + setting(c.Dim) + " of its entry under identity lists them",
				})
				break
			}
		}
	}
	if (op.Derived || op.Bulk) && len(op.Targets) == 0 {
		r.pinned()
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
			if row := known.owner(memproxy.TargetMemory, v); c.Op == memproxy.ClaimIs && slices.Contains(ids, v) && madeBy(&r.Principal, row) {
				r.Principal = r.Principal.Naming(c.Dim, v)
			}
		}
	}
}

func article(d memproxy.Dimension) string {
	if d == memproxy.DimAgent || d == memproxy.DimApp {
		return "an " + string(d)
	}
	return "a " + string(d)
}

// setting is the setting of a caller that lists whom it may name.
func setting(d memproxy.Dimension) string {
	if d == memproxy.DimAgent {
		return "acts_as"
	}
	return string(d) + "s"
}

func claimReason(d memproxy.Dimension) memproxy.ReasonCode {
	switch d {
	case memproxy.DimAgent:
		return memproxy.IdentityActsAs
	case memproxy.DimApp:
		return memproxy.IdentityApp
	case memproxy.DimRun:
		return memproxy.IdentityRun
	}
	return memproxy.IdentityUser
}

// pinned refuses an operation whose effect cannot be filtered memory by
// memory (a bulk delete, a summary, an export) unless it is narrowed, in
// every dimension in which the principal is limited, to what the principal
// may name.
func (r *run) pinned() {
	for _, d := range [...]memproxy.Dimension{memproxy.DimUser, memproxy.DimAgent, memproxy.DimApp, memproxy.DimRun} {
		if r.Principal.May(d).All || pins(r.op.Claims, d) {
			continue
		}
		detail := "this cannot be filtered memory by memory, so it must name " + article(d) + " that this caller may act for, or have " + setting(d) + `: "*"`
		if r.op.Single {
			detail = "everything of one owner is also what belongs to " + string(d) + "s that this caller may not act for; " + setting(d) + `: "*" opens it, with the role memproxy-forget`
		}
		r.refuse(StatusForbidden, memproxy.Reason{Code: memproxy.ScopeUnpinned, Detail: detail})
	}
}

func pins(claims []memproxy.Claim, d memproxy.Dimension) bool {
	for i := range claims {
		if c := &claims[i]; c.Dim == d && c.Pins && c.Op == memproxy.ClaimIs && len(c.Values) > 0 {
			return true
		}
	}
	return false
}
