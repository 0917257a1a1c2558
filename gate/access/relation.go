// Package access rules on what a principal may name and see. It is pure: it
// receives the answers of ledger and backend instead of asking them.
//
// Two limits apply. By the limit of the tenant, another tenant's records are answered as
// if they did not exist. By the limit of the principal, it may name only the users,
// agents, apps and runs that its identity may act for.
package access

import (
	"slices"

	"github.com/memproxy/memproxy"
)

// A Relation is how a name or an object is related to a tenant.
type Relation uint8

// The relations.
const (
	Unknown Relation = iota // it has no record
	Ours
	Foreign
)

// With combines the relation with another row for the same name or object. Once a row is
// another tenant's the relation stays Foreign. A nil row changes nothing.
func (b Relation) With(row *memproxy.Ownership, tenant string) Relation {
	switch {
	case row == nil || b == Foreign:
		return b
	case row.Scope.Tenant == tenant:
		return Ours
	}
	return Foreign
}

// MadeBy reports whether a principal created what a row records.
func MadeBy(p *memproxy.Principal, row *memproxy.Ownership) bool {
	return row != nil && row.Actor != "" && row.Actor == p.ID && row.Scope.Tenant == p.Tenant
}

// Limited reports whether a principal is limited in any dimension.
func Limited(p *memproxy.Principal) bool {
	return slices.ContainsFunc(memproxy.Dimensions[:], func(d memproxy.Dimension) bool { return !p.LimitIn(d).All })
}

// MayName reports whether a principal may name all owners of a scope.
func MayName(p *memproxy.Principal, s memproxy.Scope) bool {
	return !slices.ContainsFunc(memproxy.Dimensions[:], func(d memproxy.Dimension) bool {
		v := s.In(d)
		return v != "" && !p.LimitIn(d).Allows(v)
	})
}

// Exists reports whether an operation refers to an owner as an existing one,
// instead of creating it by naming it.
func Exists(op *memproxy.Operation, d memproxy.Dimension, name string) bool {
	return slices.ContainsFunc(op.Refs, func(ref memproxy.Ref) bool {
		return ref.ID == name || ref.Kind == memproxy.TargetEntity && ref.ID == memproxy.OwnerID(d, name)
	})
}
