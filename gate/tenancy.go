package gate

import (
	"context"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// A Masker is an Adapter that can write other names in the place of those that
// a read names (Operation.Masked), so that its backend answers as for a name
// that it has never heard.
type Masker interface {
	// Masks reports whether all names of the operation can be replaced.
	Masks(memproxy.Route, *memproxy.Operation) bool
}

// tenancy holds everything that the request names, wherever it names it, to
// the caller's tenant, whatever other limits the caller has or lacks. What is
// another tenant's is answered as what does not exist.
func tenancy(ctx context.Context, r *run) error {
	if t := r.call.Backend.Tenant; t != "" && t != r.Principal.Tenant {
		r.refuse(StatusForbidden, memproxy.Reason{
			Code: memproxy.IdentityTenant, Detail: "this backend serves another tenant than the caller's: backends[].tenant and the tenant of its entry under identity differ",
		})
		return nil
	}
	if closed, err := r.closed(ctx); closed || err != nil {
		return err
	}
	r.named = r.lookups()
	if err := r.named.need(ctx, r.named.named(r.op)...); err != nil {
		if r.op.Kind == memproxy.Recall && (r.alone() || !r.op.Derived) {
			return nil // what an answer shows is then held to what the caller's limits name
		}
		r.g.opt.Log.ErrorContext(ctx, "ledger lookup failed", "decision", r.Decision.ID, "error", err)
		r.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: "whose the names of this request are cannot be looked up"})
		return nil
	}
	r.claimed()
	r.wholly()
	if r.verdict.Stops() && !r.dry() {
		return nil // all that is not there is answered alike
	}
	return r.referred(ctx)
}

// alone reports whether all that the backend holds is the caller's tenant's: it
// is declared to, or no other tenant is configured.
func (a *Admission) alone() bool {
	return a.rules.OneTenant || a.call.Backend.Tenant != "" && a.call.Backend.Tenant == a.Principal.Tenant
}

// named are the owners and objects that a request names, and what it is about.
func (l *lookups) named(op *memproxy.Operation) []memproxy.MemoryKey {
	keys := l.keys(op.TargetKind, op.Targets...)
	for i := range op.Claims {
		c := &op.Claims[i]
		if c.Op != memproxy.ClaimIs || c.Dim == memproxy.DimActor {
			continue
		}
		for _, v := range c.Values {
			keys = append(keys, l.key(memproxy.TargetEntity, memproxy.OwnerID(c.Dim, v)))
		}
	}
	for i := range op.Refs {
		keys = append(keys, l.key(op.Refs[i].Kind, op.Refs[i].ID))
	}
	return keys
}

// A bond is how an owner's name stands to the caller's tenant.
type bond uint8

const (
	unknownName bond = iota // nobody has used it
	ourName
	foreignName
)

// with is the bond to what another row is of as well: what is another tenant's
// by one row is not the caller's by any other.
func (b bond) with(row *memproxy.Ownership, tenant string) bond {
	switch {
	case row == nil || b == foreignName:
		return b
	case row.Scope.Tenant == tenant:
		return ourName
	}
	return foreignName
}

// bond says whose an owner's name is. The ledger alone decides: it has a row of
// every name that was written under, and of every name that the configuration
// lists.
func (r *run) bond(d memproxy.Dimension, name string) bond {
	bond := unknownName.with(r.named.owner(memproxy.TargetEntity, memproxy.OwnerID(d, name)), r.Principal.Tenant)
	for i := range r.op.Refs { // an owner that is an object has a row as such
		if ref := &r.op.Refs[i]; ref.ID == name && ref.Kind != memproxy.TargetEntity {
			bond = bond.with(r.named.owner(ref.Kind, name), r.Principal.Tenant)
		}
	}
	return bond
}

// exists reports whether an owner is named as something that is there already,
// and does not come to be by being named.
func (r *run) exists(d memproxy.Dimension, name string) bool {
	return slices.ContainsFunc(r.op.Refs, func(ref memproxy.Ref) bool {
		return ref.ID == name || ref.Kind == memproxy.TargetEntity && ref.ID == memproxy.OwnerID(d, name)
	})
}

// claimed rules on the owners that are named. A name that nobody has used comes
// to be the tenant's by a write; for a read it is no different from another
// tenant's, so that nobody can tell the two apart.
func (r *run) claimed() {
	masker, masks := r.call.Backend.Adapter.(Masker)
	masks = masks && r.op.Kind == memproxy.Recall && !r.op.Derived && !r.op.Bulk && masker.Masks(r.call.Route, r.op)
	for i := range r.op.Claims {
		c := &r.op.Claims[i]
		switch {
		case c.Dim == memproxy.DimActor:
		case c.Op == memproxy.ClaimIs:
			for _, name := range c.Values {
				r.claim(c, name, masks)
			}
		case r.op.Kind == memproxy.Learn && !r.alone():
			r.refuse(StatusForbidden, memproxy.Reason{
				Code: memproxy.IdentityBroad, Pointer: c.Pointer,
				Detail: "what is written belongs to one " + string(c.Dim) + ", by name",
			})
		}
	}
}

// claim rules on one name.
func (r *run) claim(c *memproxy.Claim, name string, masks bool) {
	op := r.op
	writes := op.Kind == memproxy.Learn || op.Kind == memproxy.Correct
	switch bond := r.bond(c.Dim, name); {
	case writes && name == "*": // a wildcard comes to be nobody's
		if !r.alone() {
			r.missing(c.Pointer)
		}
	case bond == ourName:
	case bond == unknownName && r.exists(c.Dim, name) && (op.Derived || op.Bulk) && !r.alone():
		r.missing(c.Pointer) // it came around the proxy, and cannot be judged
	case bond == unknownName && writes:
		r.unbound = append(r.unbound, memproxy.OwnerID(c.Dim, name))
	case bond == unknownName && r.exists(c.Dim, name): // it is judged as what is referred to
	case bond == unknownName && (r.alone() || !op.Derived && !op.Bulk && r.rules.Unattributed == UnattributedVisible):
	case masks:
		if op.Masked == nil {
			op.Masked = map[string]string{}
		}
		op.Masked[memproxy.OwnerID(c.Dim, name)] = "nobody-" + r.Decision.ID
		why := memproxy.Reason{Code: memproxy.OwnerUnknown, Pointer: c.Pointer, Detail: "asked for under a name that nobody has: no memory of the caller's tenant is under the one that is named"}
		if bond == foreignName {
			why.Code = memproxy.OwnerForeign
		}
		r.note(why) // for the record; the caller sees no difference
	default:
		r.missing(c.Pointer)
	}
}

// widened reports whether another place of the request names everybody, or all
// but some, in a dimension: which of the two places counts is the backend's to
// say.
func (r *run) widened(d memproxy.Dimension) bool {
	return slices.ContainsFunc(r.op.Claims, func(c memproxy.Claim) bool { return c.Dim == d && c.Op != memproxy.ClaimIs })
}

// missing refuses as if what is named did not exist.
func (r *run) missing(pointer string) {
	r.refuse(StatusNotFound, memproxy.Reason{
		Code: memproxy.OwnerUnknown, Pointer: pointer, Detail: "this names what is not there for this caller's tenant",
	})
}

// wholly refuses what is made of many memories at once, or changes many, unless
// all of them are the tenant's: the request is narrowed to an owner that is.
func (r *run) wholly() {
	op := r.op
	if r.alone() || !op.Derived && !op.Bulk || r.verdict.Stops() && r.enforced() {
		return
	}
	if len(op.Targets) > 0 && op.TargetKind != memproxy.TargetEntity {
		return // by id: whose that is, own finds out
	}
	for i := range op.Claims {
		c := &op.Claims[i]
		if c.Pins && c.Op == memproxy.ClaimIs && c.Dim != memproxy.DimActor && len(c.Values) > 0 && !r.widened(c.Dim) {
			return // all names were ruled on
		}
	}
	for i := range op.Refs {
		ref := &op.Refs[i]
		if !strings.HasPrefix(ref.Pointer, "path:") {
			continue
		}
		if row := r.named.owner(ref.Kind, ref.ID); row == nil || row.Scope.Tenant != r.Principal.Tenant {
			r.missing(ref.Pointer)
		}
		return
	}
	r.refuse(StatusForbidden, memproxy.Reason{
		Code:   memproxy.ScopeUnpinned,
		Detail: "this is made of many memories, or changes many, and several tenants share the backend: it must name an owner of this caller's tenant, or backends[].tenant say that it holds one alone",
	})
}
