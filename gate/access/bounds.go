package access

import (
	"slices"

	"github.com/memproxy/memproxy"
)

// Bounds checks every identity that an operation names against the limits of a
// principal, and returns the reasons for a refusal, or none if all are allowed. The
// payload never determines the caller; it is only checked against the caller.
func Bounds(p *memproxy.Principal, op *memproxy.Operation) (refused []memproxy.Reason) {
	entry := "its entry under identity"
	if p.Kind == memproxy.KindAnonymous { // it has none
		entry = "identity.default"
	}
	narrow := map[memproxy.Dimension]bool{}
	for _, d := range memproxy.Dimensions {
		narrow[d] = narrowed(p, op, d)
	}
	for _, c := range op.Claims {
		limit := p.LimitIn(c.Dim)
		switch {
		case limit.All:
		case c.Op != memproxy.ClaimIs && narrow[c.Dim]: // it can only narrow further
		case c.Op != memproxy.ClaimIs:
			refused = append(refused, memproxy.Reason{
				Code: memproxy.IdentityBroad, Pointer: c.Pointer,
				Detail: "a wildcard, an exclusion or an unknown operator on " + string(c.Dim) + " can match more than this caller may access; " + words[c.Dim].setting + `: "*" in ` + entry + ` allows it`,
			})
		case slices.ContainsFunc(c.Values, func(v string) bool { return !limit.Allows(v) }):
			refused = append(refused, memproxy.Reason{
				Code: words[c.Dim].code, Pointer: c.Pointer,
				Detail: "the payload names " + words[c.Dim].one + " that this caller may not act for; " + words[c.Dim].setting + " in " + entry + " lists the permitted ones",
			})
		}
	}
	if (op.Derived || op.Bulk) && len(op.Targets) == 0 {
		refused = append(refused, pinned(p, op)...)
	}
	return refused
}

// Confined reports whether an operation is narrowed, in every dimension in which the
// principal is limited, to what the principal may name.
func Confined(p *memproxy.Principal, op *memproxy.Operation) bool {
	return !slices.ContainsFunc(memproxy.Dimensions[:], func(d memproxy.Dimension) bool { return !p.LimitIn(d).All && !pins(op.Claims, d) })
}

// pinned refuses an operation whose effect cannot be filtered memory by memory (a
// bulk delete, a summary, an export) unless it is narrowed, in every dimension in
// which the principal is limited, to what the principal may name.
func pinned(p *memproxy.Principal, op *memproxy.Operation) (refused []memproxy.Reason) {
	for _, d := range memproxy.Dimensions {
		if p.LimitIn(d).All || pins(op.Claims, d) {
			continue
		}
		detail := "the operation cannot be filtered per memory, so it must name " + words[d].one + " that this caller may act for, or the caller needs " + words[d].setting + `: "*"`
		if op.SingleOwner {
			detail = "the memories of one owner include those of " + string(d) + "s that this caller may not act for; " + words[d].setting + `: "*" and the role memproxy-forget allow it`
		}
		refused = append(refused, memproxy.Reason{Code: memproxy.ScopeUnpinned, Detail: detail})
	}
	return refused
}

// narrowed reports whether the filter of a read restricts it to owners that the principal
// may name. Whatever other conditions on owners it has then narrow it further. Only a read
// whose answer is filtered memory by memory can be narrowed like this, because a backend
// may ignore a condition that another contradicts.
func narrowed(p *memproxy.Principal, op *memproxy.Operation, d memproxy.Dimension) bool {
	if op.Kind != memproxy.Recall || op.Derived || op.Bulk {
		return false
	}
	limit := p.LimitIn(d)
	names, within := op.Within[d]
	within = within && !slices.ContainsFunc(names, func(name string) bool { return !limit.Allows(name) })
	return within || pins(op.Claims, d)
}

// words has the wording of refusals by dimension.
var words = map[memproxy.Dimension]struct {
	one     string
	setting string // lists what a caller may name
	code    memproxy.ReasonCode
}{
	memproxy.DimUser:  {"a user", "users", memproxy.IdentityUser},
	memproxy.DimAgent: {"an agent", "acts_as", memproxy.IdentityActsAs},
	memproxy.DimApp:   {"an app", "apps", memproxy.IdentityApp},
	memproxy.DimRun:   {"a run", "runs", memproxy.IdentityRun},
}

// pins reports whether a claim narrows the whole operation in a dimension.
func pins(claims []memproxy.Claim, d memproxy.Dimension) bool {
	return slices.ContainsFunc(claims, func(c memproxy.Claim) bool {
		return c.Dim == d && c.Pins && c.Op == memproxy.ClaimIs && len(c.Values) > 0
	})
}
