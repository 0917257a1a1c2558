package access

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Names are the names in an operation whose owners decide whether it is allowed.
type Names struct {
	Op     *memproxy.Operation
	Tenant string
	// Rows has the records of the names. The ledger alone decides: it has a row for
	// every name that a write used, and for every name in the configuration.
	Rows Rows
	// Alone is set if everything in the backend is the tenant's.
	Alone bool
	// Visible is set if memories without a known owner may be read.
	Visible bool
	// Masks is set if the adapter can replace each name by another.
	Masks bool
}

// A Ruling is the decision on the names in an operation.
type Ruling struct {
	Refused []memproxy.Reason
	// Unbound are owners that the operation binds to the tenant: those without a record that
	// a write names, and those whose binding could be released meanwhile.
	Unbound []string
	// Masked are the owners that are replaced by another name. The reasons are in
	// Notes, which only the record has, because the caller must see no difference.
	Masked []string
	Notes  []memproxy.Reason
}

// Relation returns how an owner's name is related to the tenant. An empty name is none, so
// no tenant has it, whatever an earlier version recorded.
func (n *Names) Relation(d memproxy.Dimension, name string) Relation {
	return n.relation(n.row(d, name), name)
}

func (n *Names) row(d memproxy.Dimension, name string) *memproxy.Ownership {
	return n.Rows(memproxy.TargetEntity, memproxy.OwnerID(d, name))
}

func (n *Names) relation(row *memproxy.Ownership, name string) Relation {
	if name == "" {
		return Unknown
	}
	relation := Unknown.With(row, n.Tenant)
	for i := range n.Op.Refs { // an owner that is an object has a row of that kind
		if ref := &n.Op.Refs[i]; ref.ID == name && ref.Kind != memproxy.TargetEntity {
			relation = relation.With(n.Rows(ref.Kind, name), n.Tenant)
		}
	}
	return relation
}

// Claims rules on the owners that are named. A write binds an unused name to the
// tenant. The name is released if the backend refuses that write and no other operation
// relied on it: one that would be wrong for another tenant's name binds it again. In
// a read, an unused name is treated like another tenant's, so that the two cannot be told
// apart.
func (n *Names) Claims() (out Ruling) {
	if c := n.tooMany(); c != nil {
		return Ruling{Refused: []memproxy.Reason{broad(c)}}
	}
	for i := range n.Op.Claims {
		c := &n.Op.Claims[i]
		switch {
		case c.Dim == memproxy.DimActor:
		case c.Op == memproxy.ClaimIs:
			for _, name := range c.Values {
				n.claim(&out, c, name)
			}
		case c.Op == memproxy.ClaimExclude && n.Op.Kind == memproxy.Recall && !n.Op.Derived && !n.Op.Bulk:
			for _, name := range c.Values {
				n.exclude(&out, c, name)
			}
		case n.Op.Kind == memproxy.Learn && !n.Alone:
			out.Refused = append(out.Refused, broad(c))
		}
	}
	return out
}

// broad returns the reason for refusing a write that does not name a single owner.
func broad(c *memproxy.Claim) memproxy.Reason {
	return memproxy.Reason{
		Code: memproxy.IdentityBroad, Pointer: c.Pointer,
		Detail: "what is written belongs to one " + string(c.Dim) + ", whose name is a string",
	}
}

// tooMany returns the claim with which a write names too many owners of a dimension that
// are not the tenant's yet, because it would bind them all. A write can have two for each
// memory: one, and another in the metadata. Foreign and unused names count alike, so that
// the refusal reveals nothing about them.
func (n *Names) tooMany() *memproxy.Claim {
	if n.Alone || n.Op.Kind != memproxy.Learn && n.Op.Kind != memproxy.Correct {
		return nil
	}
	seen, fresh := map[string]bool{}, map[memproxy.Dimension]int{}
	for i := range n.Op.Claims {
		c := &n.Op.Claims[i]
		for _, name := range c.Values {
			id := memproxy.OwnerID(c.Dim, name)
			if c.Dim == memproxy.DimActor || c.Op != memproxy.ClaimIs || seen[id] || n.Relation(c.Dim, name) == Ours || Exists(n.Op, c.Dim, name) {
				continue
			}
			seen[id] = true
			if fresh[c.Dim]++; fresh[c.Dim] > 2*max(1, len(n.Op.Targets)) {
				return c
			}
		}
	}
	return nil
}

// claim rules on one name.
func (n *Names) claim(out *Ruling, c *memproxy.Claim, name string) {
	op := n.Op
	writes := op.Kind == memproxy.Learn || op.Kind == memproxy.Correct
	row := n.row(c.Dim, name)
	mayBeReleased := row != nil && row.Decision != "" // if the backend refuses the write that claimed it
	switch relation := n.relation(row, name); {
	case name == "" && (writes || op.Kind == memproxy.Recall && !op.Derived && !op.Bulk): // backends take it for none; each memory is ruled on by itself
	case writes && name == "*": // a wildcard is bound to no tenant
		if !n.Alone {
			out.Refused = append(out.Refused, Missing(c.Pointer))
		}
	case relation == Ours && (writes || op.Derived || op.Bulk) && mayBeReleased:
		out.Unbound = append(out.Unbound, memproxy.OwnerID(c.Dim, name))
	case relation == Ours:
	case relation == Unknown && Exists(op, c.Dim, name) && (op.Derived || op.Bulk) && !n.Alone:
		out.Refused = append(out.Refused, Missing(c.Pointer)) // made out-of-band, by an unknown tenant
	case relation == Unknown && writes:
		out.Unbound = append(out.Unbound, memproxy.OwnerID(c.Dim, name))
	case relation == Unknown && Exists(op, c.Dim, name): // the gate's step referred rules on it as a reference
	case relation == Unknown && (n.Alone || !op.Derived && !op.Bulk && n.Visible):
	default:
		n.mask(out, c, name, relation)
	}
}

// exclude rules on a name whose memories a read excludes. Another tenant's memories
// are never shown, and excluding them in the backend would reveal by the length of a
// page that they exist.
func (n *Names) exclude(out *Ruling, c *memproxy.Claim, name string) {
	if relation := n.Relation(c.Dim, name); relation != Ours && !n.Alone && (relation != Unknown || !n.Visible) {
		n.mask(out, c, name, relation)
	}
}

// mask replaces a name that does not exist for the tenant, or refuses it.
func (n *Names) mask(out *Ruling, c *memproxy.Claim, name string, relation Relation) {
	if !n.Masks || n.Op.Kind != memproxy.Recall || n.Op.Derived || n.Op.Bulk {
		out.Refused = append(out.Refused, Missing(c.Pointer))
		return
	}
	out.Masked = append(out.Masked, memproxy.OwnerID(c.Dim, name))
	why := memproxy.Reason{Code: memproxy.OwnerUnknown, Pointer: c.Pointer, Detail: "the name was replaced by one that does not exist: the caller's tenant has no memory under it"}
	if relation == Foreign {
		why.Code = memproxy.OwnerForeign
	}
	out.Notes = append(out.Notes, why)
}

// Missing returns the reason for refusing something as if it did not exist.
func Missing(pointer string) memproxy.Reason {
	return memproxy.Reason{Code: memproxy.OwnerUnknown, Pointer: pointer, Detail: "not found in this caller's tenant"}
}

// Narrowing returns the claims that narrow the whole operation to their owners. A claim does
// not if another one has a wildcard or an exclusion in the same dimension, because the
// backend then decides which of the two applies, or if a name is empty, because the backend
// ignores it.
func Narrowing(op *memproxy.Operation) (narrow []*memproxy.Claim) {
	loose := map[memproxy.Dimension]bool{memproxy.DimActor: true}
	for i := range op.Claims {
		loose[op.Claims[i].Dim] = loose[op.Claims[i].Dim] || op.Claims[i].Op != memproxy.ClaimIs
	}
	for i := range op.Claims {
		if c := &op.Claims[i]; c.Pins && !loose[c.Dim] && len(c.Values) > 0 && !slices.Contains(c.Values, "") {
			narrow = append(narrow, c)
		}
	}
	return narrow
}

// AnyOwner is the owner of an export in a dimension in which its filter does not restrict
// it to one owner. Callers see such an export if they may name every owner, or made it.
const AnyOwner = "*"

// RestrictedTo returns the owners that an operation is restricted to.
func RestrictedTo(op *memproxy.Operation) memproxy.Scope {
	scope, narrow := op.Scope, Narrowing(op)
	for _, d := range memproxy.Dimensions {
		name := scope.In(d)
		if name != "" && !slices.ContainsFunc(narrow, func(c *memproxy.Claim) bool {
			return c.Dim == d && len(c.Values) == 1 && c.Values[0] == name
		}) {
			*scope.Owner(d) = AnyOwner
		}
	}
	return scope
}

// Whole returns the reasons for refusing an operation that derives its result from many
// memories, or changes many, and is not narrowed to an owner of the tenant.
func (n *Names) Whole() []memproxy.Reason {
	op := n.Op
	if n.Alone || !op.Derived && !op.Bulk {
		return nil
	}
	if len(op.Targets) > 0 && op.TargetKind != memproxy.TargetEntity {
		return nil // each target is ruled on by id
	}
	if len(Narrowing(op)) > 0 {
		return nil // Claims ruled on all names
	}
	for i := range op.Refs {
		ref := &op.Refs[i]
		if !strings.HasPrefix(ref.Pointer, "path:") {
			continue
		}
		if row := n.Rows(ref.Kind, ref.ID); row == nil || row.Scope.Tenant != n.Tenant {
			return []memproxy.Reason{Missing(ref.Pointer)}
		}
		return nil
	}
	return []memproxy.Reason{{
		Code:   memproxy.ScopeUnpinned,
		Detail: "the operation reads or changes many memories, and several tenants share the backend: it must name an owner of this caller's tenant, or backends[].tenant must declare that the backend holds one tenant only",
	}}
}

// Refers reports whether a reference may name an owner. It is not for names that their
// first use creates.
func (n *Names) Refers(ref *memproxy.Ref) bool {
	dim, name, _ := strings.Cut(ref.ID, ":")
	switch n.Relation(memproxy.Dimension(dim), name) {
	case Foreign:
		return false
	case Unknown:
		return n.Alone || n.Visible
	}
	return true
}
