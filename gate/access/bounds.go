package access

import "github.com/memproxy/memproxy"

// Bounds checks every identity that an operation names against what a principal may
// name, and returns the reasons for a refusal; none if all are allowed. The payload
// never determines the caller; here it is checked against the caller.
func Bounds(p *memproxy.Principal, op *memproxy.Operation) (refused []memproxy.Reason) {
	for i := range op.Claims {
		c := &op.Claims[i]
		limit := p.May(c.Dim)
		if limit.All {
			continue
		}
		if c.Op != memproxy.ClaimIs {
			refused = append(refused, memproxy.Reason{
				Code: memproxy.IdentityBroad, Pointer: c.Pointer,
				Detail: "a wildcard, an exclusion or an unknown operator on " + string(c.Dim) + " reaches past what this caller may name; " + setting(c.Dim) + `: "*" of its entry under identity allows it`,
			})
			continue
		}
		for _, v := range c.Values {
			if !limit.Allows(v) {
				refused = append(refused, memproxy.Reason{
					Code: claimReason(c.Dim), Pointer: c.Pointer,
					Detail: "the payload names " + article(c.Dim) + " that this caller may not act for; " + setting(c.Dim) + " of its entry under identity lists them",
				})
				break
			}
		}
	}
	if (op.Derived || op.Bulk) && len(op.Targets) == 0 {
		refused = append(refused, pinned(p, op)...)
	}
	return refused
}

// pinned refuses an operation whose effect cannot be filtered memory by memory (a
// bulk delete, a summary, an export) unless it is narrowed, in every dimension in
// which the principal is limited, to what the principal may name.
func pinned(p *memproxy.Principal, op *memproxy.Operation) (refused []memproxy.Reason) {
	for _, d := range Dimensions {
		if p.May(d).All || pins(op.Claims, d) {
			continue
		}
		detail := "this cannot be filtered memory by memory, so it must name " + article(d) + " that this caller may act for, or have " + setting(d) + `: "*"`
		if op.Single {
			detail = "everything of one owner is also what belongs to " + string(d) + "s that this caller may not act for; " + setting(d) + `: "*" opens it, with the role memproxy-forget`
		}
		refused = append(refused, memproxy.Reason{Code: memproxy.ScopeUnpinned, Detail: detail})
	}
	return refused
}

func article(d memproxy.Dimension) string {
	if d == memproxy.DimAgent || d == memproxy.DimApp {
		return "an " + string(d)
	}
	return "a " + string(d)
}

// setting is the name of the setting that lists what a caller may name.
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

func pins(claims []memproxy.Claim, d memproxy.Dimension) bool {
	for i := range claims {
		if c := &claims[i]; c.Dim == d && c.Pins && c.Op == memproxy.ClaimIs && len(c.Values) > 0 {
			return true
		}
	}
	return false
}
