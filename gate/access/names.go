package access

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Names are the names in an operation of which whose they are decides.
type Names struct {
	Op     *memproxy.Operation
	Tenant string
	// Rows has what is recorded of each name. The ledger alone decides: it has a
	// row of every name that was written under, and of every name that the
	// configuration lists.
	Rows Rows
	// Alone is set where all that the backend holds is the tenant's.
	Alone bool
	// Visible is set where memories without an attribution may be read.
	Visible bool
	// Masks is set where another name can be sent in the place of each.
	Masks bool
}

// A Ruling is what becomes of the names in an operation.
type Ruling struct {
	Refused []memproxy.Reason
	// Unbound are the owners whom nobody knows and that a write makes the tenant's.
	Unbound []string
	// Masked are the owners in whose place another name is sent, with why: for the
	// record alone, since the caller must see no difference.
	Masked []string
	Notes  []memproxy.Reason
}

// Bond says whose an owner's name is.
func (n *Names) Bond(d memproxy.Dimension, name string) Bond {
	bond := Unknown.With(n.Rows(memproxy.TargetEntity, memproxy.OwnerID(d, name)), n.Tenant)
	for i := range n.Op.Refs { // an owner that is an object has a row as such
		if ref := &n.Op.Refs[i]; ref.ID == name && ref.Kind != memproxy.TargetEntity {
			bond = bond.With(n.Rows(ref.Kind, name), n.Tenant)
		}
	}
	return bond
}

// Claims rules on the owners that are named. A name that nobody has used comes
// to be the tenant's by a write; for a read it is no different from another
// tenant's, so that nobody can tell the two apart.
func (n *Names) Claims() (out Ruling) {
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
			out.Refused = append(out.Refused, memproxy.Reason{
				Code: memproxy.IdentityBroad, Pointer: c.Pointer,
				Detail: "what is written belongs to one " + string(c.Dim) + ", by name",
			})
		}
	}
	return out
}

// claim rules on one name.
func (n *Names) claim(out *Ruling, c *memproxy.Claim, name string) {
	op := n.Op
	writes := op.Kind == memproxy.Learn || op.Kind == memproxy.Correct
	switch bond := n.Bond(c.Dim, name); {
	case writes && name == "*": // a wildcard comes to be nobody's
		if !n.Alone {
			out.Refused = append(out.Refused, Missing(c.Pointer))
		}
	case bond == Ours:
	case bond == Unknown && Exists(op, c.Dim, name) && (op.Derived || op.Bulk) && !n.Alone:
		out.Refused = append(out.Refused, Missing(c.Pointer)) // it came around the proxy, and cannot be judged
	case bond == Unknown && writes:
		out.Unbound = append(out.Unbound, memproxy.OwnerID(c.Dim, name))
	case bond == Unknown && Exists(op, c.Dim, name): // it is judged as what is referred to
	case bond == Unknown && (n.Alone || !op.Derived && !op.Bulk && n.Visible):
	default:
		n.mask(out, c, name, bond)
	}
}

// exclude rules on a name whose memories a read leaves out. What is another tenant's
// is not shown in any case, and to leave it out upstream would tell by the length of
// a page that it is there.
func (n *Names) exclude(out *Ruling, c *memproxy.Claim, name string) {
	switch bond := n.Bond(c.Dim, name); {
	case bond == Ours, n.Alone, bond == Unknown && n.Visible:
	default:
		n.mask(out, c, name, bond)
	}
}

// mask has another name sent in the place of one that is not there for the tenant, or
// refuses it.
func (n *Names) mask(out *Ruling, c *memproxy.Claim, name string, bond Bond) {
	if !n.Masks || n.Op.Kind != memproxy.Recall || n.Op.Derived || n.Op.Bulk {
		out.Refused = append(out.Refused, Missing(c.Pointer))
		return
	}
	out.Masked = append(out.Masked, memproxy.OwnerID(c.Dim, name))
	why := memproxy.Reason{Code: memproxy.OwnerUnknown, Pointer: c.Pointer, Detail: "asked for under a name that nobody has: no memory of the caller's tenant is under the one that is named"}
	if bond == Foreign {
		why.Code = memproxy.OwnerForeign
	}
	out.Notes = append(out.Notes, why)
}

// Missing is why something is refused as if it did not exist.
func Missing(pointer string) memproxy.Reason {
	return memproxy.Reason{Code: memproxy.OwnerUnknown, Pointer: pointer, Detail: "this names what is not there for this caller's tenant"}
}

// Whole refuses what is made of many memories at once, or changes many, unless
// all of them are the tenant's: the request is narrowed to an owner that is.
func (n *Names) Whole() []memproxy.Reason {
	op := n.Op
	if n.Alone || !op.Derived && !op.Bulk {
		return nil
	}
	if len(op.Targets) > 0 && op.TargetKind != memproxy.TargetEntity {
		return nil // by id: whose that is, is found out for each
	}
	for i := range op.Claims {
		c := &op.Claims[i]
		// Where another place names everybody in the dimension, or all but some,
		// which of the two places counts is the backend's to say.
		if c.Pins && c.Op == memproxy.ClaimIs && c.Dim != memproxy.DimActor && len(c.Values) > 0 &&
			!slices.ContainsFunc(op.Claims, func(other memproxy.Claim) bool { return other.Dim == c.Dim && other.Op != memproxy.ClaimIs }) {
			return nil // all names were ruled on
		}
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
		Detail: "this is made of many memories, or changes many, and several tenants share the backend: it must name an owner of this caller's tenant, or backends[].tenant say that it holds one alone",
	}}
}

// Refers reports whether an owner may be referred to by its name. Names that
// come to be by being used are no references.
func (n *Names) Refers(ref *memproxy.Ref) bool {
	dim, name, _ := strings.Cut(ref.ID, ":")
	switch n.Bond(memproxy.Dimension(dim), name) {
	case Foreign:
		return false
	case Unknown:
		return n.Alone || n.Visible
	}
	return true
}
