package gate

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/limits"
)

// bound checks every identity that the payload names against what the principal may
// name.
func bound(ctx context.Context, r *run) error {
	allowOwn(ctx, r)
	if refused := access.Bounds(&r.Principal, r.op); len(refused) > 0 {
		r.verdict.refuse(StatusForbidden, refused...)
	}
	return nil
}

// allowOwn allows a limited principal to name what it made itself, such as an agent
// that it has just created; the ledger records who made it. Configured names are
// checked first, so that ordinary requests need no lookup.
func allowOwn(ctx context.Context, r *run) {
	if r.dry() {
		return // explain runs without a ledger
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
	known := r.known
	if err := known.need(ctx, append(known.named(r.op), known.keys(memproxy.TargetMemory, ids...)...)...); err != nil {
		return // names outside of the configuration are then refused
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

// tenancy checks every name in the request, wherever it occurs, against the
// caller's tenant, whatever other limits the caller has. Another tenant's name is
// answered like one that does not exist.
func tenancy(ctx context.Context, r *run) error {
	if t := r.call.Backend.Tenant; t != "" && t != r.Principal.Tenant {
		r.verdict.refuse(StatusForbidden, memproxy.Reason{
			Code: memproxy.IdentityTenant, Detail: "this backend serves another tenant than the caller's: backends[].tenant and the tenant of its entry under identity differ",
		})
		return nil
	}
	if closed, err := closed(ctx, r); closed || err != nil {
		return err
	}
	r.named = r.known
	if err := r.named.need(ctx, r.named.named(r.op)...); err != nil {
		if r.op.Kind == memproxy.Recall && (r.alone() || !r.op.Derived) {
			return nil // the answer is then filtered by the caller's limits
		}
		ledgerFailed(ctx, r, err, "whose the names of this request are cannot be looked up")
		return nil
	}
	names := namesOf(r)
	ruling := names.Claims()
	r.verdict.refuseNames(ruling.Refused)
	r.unbound = append(r.unbound, ruling.Unbound...)
	for _, id := range ruling.Masked {
		if r.op.Masked == nil {
			r.op.Masked = map[string]string{}
		}
		r.op.Masked[id] = "nobody-" + r.Decision.ID
	}
	r.verdict.note(ruling.Notes...)
	if !r.verdict.worst.Stops() || !r.enforced() {
		r.verdict.refuseNames(names.Whole())
	}
	if r.verdict.worst.Stops() && !r.dry() {
		return nil // everything missing is answered alike
	}
	return referred(ctx, r)
}

// alone reports whether the backend holds only the caller's tenant's memories, by
// declaration or because no other tenant is configured.
func (a *Admission) alone() bool {
	return a.rules.OneTenant || a.call.Backend.Tenant != "" && a.call.Backend.Tenant == a.Principal.Tenant
}

// named returns the keys of the owners and objects that a request names, and of its
// targets.
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

// namesOf looks up the names in the request and returns them for access rules.
func namesOf(r *run) *access.Names {
	masker, masks := r.call.Backend.Adapter.(Masker)
	return &access.Names{
		Op: r.op, Tenant: r.Principal.Tenant, Rows: r.named.owner, Alone: r.alone(), Visible: r.rules.Unattributed == access.Visible,
		Masks: masks && r.op.Kind == memproxy.Recall && masker.Masks(r.call.Route, r.op),
	}
}

// referred rules on the objects that the request refers to, other than its targets,
// which own rules on. A running agent's call has no such step.
func referred(ctx context.Context, r *run) error {
	var ask []string
	at := map[string]*memproxy.Ref{}
	v := r.viewer(r.g.opt.Signer, r.named)
	var scopes []memproxy.Scope
	for i := range r.op.Refs {
		if row := r.named.owner(r.op.Refs[i].Kind, r.op.Refs[i].ID); row != nil {
			scopes = append(scopes, row.Scope)
		}
	}
	if err := v.lookUp(ctx, r.g, scopes, nil); err != nil {
		v.Blind = true
	}
	names := namesOf(r)
	for i := range r.op.Refs {
		ref := &r.op.Refs[i]
		if ref.Kind == memproxy.TargetEntity {
			if !names.Refers(ref) {
				r.verdict.missing(ref.Pointer)
			}
			continue
		}
		if !inside(r) && ref.Kind == r.op.TargetKind && slices.Contains(r.op.Targets, ref.ID) {
			continue
		}
		row := r.named.owner(ref.Kind, ref.ID)
		switch {
		case row != nil && !v.Sees(row, &memproxy.Memory{}):
			r.verdict.missing(ref.Pointer)
		case ref.Loose:
		case row == nil && at[ref.ID] == nil && (r.rules.Unattributed != access.Visible || access.Limited(&r.Principal)):
			at[ref.ID] = ref
			ask = append(ask, ref.ID)
		}
	}
	if len(ask) == 0 || r.verdict.worst.Stops() && r.enforced() {
		return nil
	}
	return discover(ctx, r, ask, at)
}

// cursor reports whether a reference is a pagination cursor, which does not select
// what the request acts on.
func cursor(pointer string) bool {
	switch pointer {
	case "query:before", "query:after", "query:cursor":
		return true
	}
	return strings.HasPrefix(pointer, "header:")
}

// discover fetches the parents of objects that are not in the ledger. Objects that
// cannot be fetched are denied on shared backends, except to administrators.
func discover(ctx context.Context, r *run, ask []string, at map[string]*memproxy.Ref) error {
	loc, ok := r.call.Backend.Adapter.(Locator)
	if !ok || r.call.Backend.Fetch == nil || r.dry() {
		return nil
	}
	var some []string
	for _, id := range ask {
		if loc.Locate(r.call.Route, r.call.Request, id).EscapedPath != "" {
			some = append(some, id)
		} else if !r.alone() && r.rules.Unattributed != access.Visible && r.op.Kind != memproxy.Admin && !cursor(at[id].Pointer) {
			r.verdict.missing(at[id].Pointer)
		}
	}
	if len(some) == 0 {
		return nil
	}
	if len(some) > limits.MaxUnknown {
		r.verdict.refuse(StatusUnprocessed, memproxy.Reason{
			Code:   memproxy.LimitSideRequests,
			Detail: "the request refers to " + strconv.Itoa(len(some)) + " objects that memproxy would have to ask the backend about; at most " + strconv.Itoa(limits.MaxUnknown) + " are asked about",
		})
		return nil
	}
	found, err := located(ctx, r.g, r.call, loc, some)
	if err != nil {
		return err
	}
	v := r.viewer(r.g.opt.Signer, r.known)
	memories := make([]memproxy.Memory, 0, len(found))
	for _, m := range found {
		memories = append(memories, m)
	}
	if err := v.lookUp(ctx, r.g, nil, memories); err != nil {
		v.Blind = true
	}
	for _, id := range some {
		if m := found[id]; m.Missing && !r.alone() || !m.Missing && !v.Sees(nil, &m) {
			r.verdict.missing(at[id].Pointer)
		}
	}
	return nil
}

// adopt records the caller as the owner of the objects that a write made, unless
// they have an owner.
func (ret *effects) adopt(ctx context.Context) {
	if ret.reading == nil || len(ret.reading.Made) == 0 {
		return
	}
	rows := make([]memproxy.Ownership, len(ret.reading.Made))
	for i, id := range ret.reading.Made {
		rows[i] = ret.row(memproxy.TargetMemory, id)
	}
	if _, err := ret.g.opt.Ledger.Bind(ctx, rows...); err != nil {
		ret.g.opt.Log.ErrorContext(ctx, "ledger not updated", "decision", ret.Decision.ID, "error", err)
	}
}
