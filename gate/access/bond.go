// Package access rules on what a principal may name and see. It is pure: it asks
// neither ledger nor backend, but is given what they said.
//
// Two limits hold for everything. The tenant's: what is recorded as another
// tenant's is answered like what does not exist. And the principal's own: users,
// agents, apps and runs that its identity may act for.
package access

import "github.com/memproxy/memproxy"

// Dimensions are the kinds of owner that a memory can have.
var Dimensions = [...]memproxy.Dimension{memproxy.DimUser, memproxy.DimAgent, memproxy.DimApp, memproxy.DimRun}

// A Bond is how a name or an object stands to a tenant.
type Bond uint8

// The bonds.
const (
	Unknown Bond = iota // nobody has used it
	Ours
	Foreign
)

// With is the bond to what another row is of as well: what is another tenant's
// by one row is not the caller's by any other. A nil row says nothing.
func (b Bond) With(row *memproxy.Ownership, tenant string) Bond {
	switch {
	case row == nil || b == Foreign:
		return b
	case row.Scope.Tenant == tenant:
		return Ours
	}
	return Foreign
}

// MadeBy reports whether a principal made what a row is of.
func MadeBy(p *memproxy.Principal, row *memproxy.Ownership) bool {
	return row != nil && row.Actor != "" && row.Actor == p.ID && row.Scope.Tenant == p.Tenant
}

// Limited reports whether a principal is limited in any dimension.
func Limited(p *memproxy.Principal) bool {
	for _, d := range Dimensions {
		if !p.May(d).All {
			return true
		}
	}
	return false
}

// MayName reports whether a principal may name all owners of a scope.
func MayName(p *memproxy.Principal, s memproxy.Scope) bool {
	for _, d := range Dimensions {
		if v := s.In(d); v != "" && !p.May(d).Allows(v) {
			return false
		}
	}
	return true
}

// Exists reports whether an operation names an owner as something that is there
// already, and does not come to be by being named.
func Exists(op *memproxy.Operation, d memproxy.Dimension, name string) bool {
	for i := range op.Refs {
		if ref := &op.Refs[i]; ref.ID == name || ref.Kind == memproxy.TargetEntity && ref.ID == memproxy.OwnerID(d, name) {
			return true
		}
	}
	return false
}
