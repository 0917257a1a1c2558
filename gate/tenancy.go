package gate

import (
	"context"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
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
	names := r.names()
	ruling := names.Claims()
	r.refuseNames(ruling.Refused)
	r.unbound = append(r.unbound, ruling.Unbound...)
	for _, id := range ruling.Masked {
		if r.op.Masked == nil {
			r.op.Masked = map[string]string{}
		}
		r.op.Masked[id] = "nobody-" + r.Decision.ID
	}
	r.note(ruling.Notes...)
	if !r.verdict.Stops() || !r.enforced() {
		r.refuseNames(names.Whole())
	}
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
		if c.Op != memproxy.ClaimIs && c.Op != memproxy.ClaimExclude || c.Dim == memproxy.DimActor {
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

// names are what the request names, after what is recorded of it was looked up.
func (r *run) names() *access.Names {
	masker, masks := r.call.Backend.Adapter.(Masker)
	return &access.Names{
		Op: r.op, Tenant: r.Principal.Tenant, Rows: r.named.owner, Alone: r.alone(), Visible: r.rules.Unattributed == access.Visible,
		Masks: masks && r.op.Kind == memproxy.Recall && masker.Masks(r.call.Route, r.op),
	}
}

// refuseNames refuses what is not there for the caller's tenant, and what names too
// many.
func (r *run) refuseNames(refused []memproxy.Reason) {
	for _, why := range refused {
		status := StatusForbidden
		if why.Code == memproxy.OwnerUnknown {
			status = StatusNotFound
		}
		r.refuse(status, why)
	}
}

// missing refuses as if what is named did not exist.
func (r *run) missing(pointer string) { r.refuse(StatusNotFound, access.Missing(pointer)) }
