package gate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
)

// checkLimits checks every identity in the payload against the limits of the principal.
func checkLimits(ctx context.Context, r *evaluation) error {
	if err := allowOwn(ctx, r); err != nil {
		ledgerFailed(ctx, r, err, namesUnknown)
	} else if refused := access.Bounds(&r.Principal, r.op); len(refused) > 0 {
		r.verdict.Refuse(memproxy.StatusForbidden, refused...)
	}
	return nil
}

// allowOwn allows a limited principal to name objects that it made according to the
// ledger, such as an agent that it has just created. Configured names are checked first,
// so that ordinary requests need no lookup.
func allowOwn(ctx context.Context, r *evaluation) error {
	if r.dry() {
		return nil // explain runs without a ledger
	}
	var ids []string
	var dims []memproxy.Dimension // the dimension of each id
	for _, c := range r.op.Claims {
		limit := r.Principal.LimitIn(c.Dim)
		for _, v := range c.Values {
			if c.Op == memproxy.ClaimIs && c.Dim != memproxy.DimActor && !limit.Allows(v) {
				ids, dims = append(ids, v), append(dims, c.Dim)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	known := r.known
	if err := known.need(ctx, append(known.namedKeys(r.op), known.keys(memproxy.TargetMemory, ids...)...)...); err != nil {
		return err
	}
	for i, id := range ids {
		if access.MadeBy(&r.Principal, known.owner(memproxy.TargetMemory, id)) {
			r.Principal = r.Principal.WithName(dims[i], id)
		}
	}
	return nil
}

const namesUnknown = "the owners of the names in this request cannot be looked up"

// checkTenancy checks every name in the request, wherever it occurs, against the
// caller's tenant, whatever other limits the caller has. Another tenant's name is
// answered like one that does not exist.
func checkTenancy(ctx context.Context, r *evaluation) error {
	if t := r.call.Backend.Tenant; t != "" && t != r.Principal.Tenant {
		r.verdict.Forbid(memproxy.IdentityTenant, "",
			"this backend serves another tenant than the caller's: backends[].tenant and the tenant of its entry under identity differ")
		return nil
	}
	if closed, err := refuseAdministration(ctx, r); closed || err != nil {
		return err
	}
	r.namedRecords = r.known
	if err := r.namedRecords.need(ctx, r.namedRecords.namedKeys(r.op)...); err != nil {
		if r.op.Kind == memproxy.Recall && (r.singleTenant() || !r.op.Derived) {
			return nil // the answer is filtered by the caller's limits
		}
		ledgerFailed(ctx, r, err, namesUnknown)
		return nil
	}
	names := namesOf(r)
	ruling := names.Claims()
	r.verdict.RefuseNames(ruling.Refused)
	r.namesToBind = append(r.namesToBind, ruling.Unbound...)
	for _, id := range ruling.Masked {
		if r.op.Masked == nil {
			r.op.Masked = map[string]string{}
		}
		r.op.Masked[id] = "nobody-" + r.Decision.ID
	}
	r.verdict.Note(ruling.Notes...)
	if !r.verdict.Worst.Stops() || !r.enforced() {
		r.verdict.RefuseNames(names.Whole())
	}
	if r.verdict.Worst.Stops() && !r.dry() {
		return nil // everything missing is answered alike
	}
	return checkReferences(ctx, r)
}

// singleTenant reports whether the backend holds only the caller's tenant's memories, by
// declaration or because no other tenant is configured.
func (a *Admission) singleTenant() bool {
	return a.rules.OneTenant || a.call.Backend.Tenant != "" && a.call.Backend.Tenant == a.Principal.Tenant
}

// namedKeys returns the keys of the owners and objects that a request names, and of its
// targets.
func (l *lookups) namedKeys(op *memproxy.Operation) []memproxy.MemoryKey {
	keys := slices.Grow(l.keys(op.TargetKind, op.Targets...), len(op.Claims)+len(op.Refs))
	for _, c := range op.Claims {
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

// namesOf returns the names in the request, with their records, for the access rules.
func namesOf(r *evaluation) *access.Names {
	masker, masks := r.call.Backend.Adapter.(backend.Extractor)
	return &access.Names{
		Op: r.op, Tenant: r.Principal.Tenant, Rows: r.namedRecords.owner, Alone: r.singleTenant(), Visible: r.rules.Unattributed == access.Visible,
		Masks: masks && r.op.Kind == memproxy.Recall && masker.Masks(r.call.Route, r.op),
	}
}

// checkReferences rules on the objects that the request refers to. It skips the targets, which
// the step gate.own rules on, except in a running agent's call, which has no such step.
func checkReferences(ctx context.Context, r *evaluation) error {
	var unknown []*memproxy.Ref
	v := r.viewer(r.g.opt.Signer, r.namedRecords)
	var scopes []*memproxy.Scope
	for i := range r.op.Refs {
		if row := r.namedRecords.owner(r.op.Refs[i].Kind, r.op.Refs[i].ID); row != nil {
			scopes = append(scopes, &row.Scope)
		}
	}
	_ = v.lookUp(ctx, scopes, nil) // after an error the view is blind
	names, concealed := namesOf(r), maskHiddenIDs(r, &v)
	for i := range r.op.Refs {
		ref := &r.op.Refs[i]
		if ref.Loose && concealed {
			continue
		}
		if ref.Kind == memproxy.TargetEntity {
			if !names.Refers(ref) {
				r.verdict.Missing(ref.Pointer)
			}
			continue
		}
		if !isToolCall(r) && ref.Kind == r.op.TargetKind && slices.Contains(r.op.Targets, ref.ID) {
			continue
		}
		row := r.namedRecords.owner(ref.Kind, ref.ID)
		switch {
		case row != nil && !v.Sees(row, &memproxy.Memory{}):
			r.verdict.Missing(ref.Pointer)
		case row == nil && !ref.Loose && (r.rules.Unattributed != access.Visible || access.Limited(&r.Principal)):
			unknown = append(unknown, ref)
		}
	}
	if r.verdict.Worst.Stops() && r.enforced() {
		return nil
	}
	return fetchReferenced(ctx, r, unknown)
}

// fetchReferenced fetches the parents of objects that are not in the ledger. Objects that
// cannot be fetched are denied on shared backends, except to administrators.
func fetchReferenced(ctx context.Context, r *evaluation, refs []*memproxy.Ref) error {
	if r.call.Backend.Fetch == nil || r.dry() {
		return nil
	}
	at := map[string]*memproxy.Ref{} // the objects that can be fetched
	for _, ref := range refs {
		switch _, again := at[ref.ID]; {
		case again:
		case r.call.Backend.Adapter.Locate(r.call.Route, r.call.Request, ref.ID).EscapedPath != "":
			at[ref.ID] = ref
		case !r.singleTenant() && r.rules.Unattributed != access.Visible && r.op.Kind != memproxy.Admin && !ref.IsCursor():
			r.verdict.Missing(ref.Pointer)
		}
	}
	if len(at) == 0 || asksTooMuch(r, len(at), "refers to %d objects") {
		return nil
	}
	ids := slices.Sorted(maps.Keys(at))
	found, err := fetch(ctx, r.call, ids)
	if err != nil {
		return err
	}
	v := r.viewer(r.g.opt.Signer, r.known)
	_ = v.lookUp(ctx, nil, slices.Collect(maps.Values(found))) // after an error the view is blind
	for _, id := range ids {
		m := found[id]
		if at[id].IsCursor() && m.Layer == memproxy.Episodic && len(m.Parents) == 0 && !m.Scope.HasOwner() && m.Stamp == nil {
			continue // an initial message names no run, and as a cursor only a position in a list that is filtered
		}
		if m.Missing && !r.singleTenant() || !m.Missing && !v.Sees(nil, &m) {
			r.verdict.Missing(at[id].Pointer)
		}
	}
	return nil
}

// bindsNames reports whether a request binds names: some have no rows, and the request is
// forwarded or held. In shadow mode it is always forwarded.
func bindsNames(r *evaluation) bool {
	return !r.dry() && len(r.namesToBind) > 0 && (!r.verdict.Worst.Stops() || !r.enforced() || r.storesHold())
}

// bindNames records the caller's tenant as the owner of the names that a write is the first
// to use, before the write is forwarded or held. A deletion of everything of that owner
// then includes the held write. If two tenants race for a name, one gets it, and the
// other's write is refused. A name that only this write uses is released if the backend
// refuses the write (accounts.unbind). An approved write makes its names permanent, because
// it may have been sent before, with an outcome that stayed unknown.
func bindNames(ctx context.Context, r *evaluation) error {
	var rows []memproxy.Ownership
	claim := r.Decision.ID
	if r.mode == replay {
		claim = ""
	}
	for _, id := range r.namesToBind {
		actor := r.Principal.ID
		if d, name, _ := strings.Cut(id, ":"); access.Exists(r.op, memproxy.Dimension(d), name) {
			if r.verdict.Worst.Stops() {
				continue // the owner may be another tenant's: a write that would be refused does not bind it
			}
			actor = "" // the owner was made out-of-band, by an unknown author
		}
		rows = append(rows, memproxy.Ownership{
			Backend: r.op.Backend, Kind: memproxy.TargetEntity, ID: id, Scope: memproxy.Scope{Tenant: r.Principal.Tenant},
			Actor: actor, Trust: r.Principal.Trust, Written: r.begun, Decision: claim,
		})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.g.opt.StoreTimeout)
	defer cancel()
	bound, err := r.g.opt.Ledger.Bind(ctx, rows...)
	if err != nil {
		return err
	}
	for _, row := range bound {
		if row.Scope.Tenant != r.Principal.Tenant {
			r.verdict.Missing("")
		} else if row.Decision != "" && row.Decision == claim {
			r.boundNames = append(r.boundNames, row)
			if r.bill != nil && !r.singleTenant() {
				r.bill.bound = true
			}
		}
	}
	if r.verdict.Worst.Stops() && !r.storesHold() {
		r.g.accounts.release(ctx, r.Admission)
	}
	return nil
}

// adopt records the caller as the owner of the objects that a write made, unless
// they have an owner.
func (ret *effects) adopt(ctx context.Context) {
	if ret.reading == nil || len(ret.reading.Created) == 0 {
		return
	}
	rows := make([]memproxy.Ownership, len(ret.reading.Created))
	for i, made := range ret.reading.Created {
		rows[i] = ret.newOwner(memproxy.TargetMemory, made.ID)
		rows[i].Scope.Agent = cmp.Or(made.Agent, rows[i].Scope.Agent)
	}
	if _, err := ret.g.opt.Ledger.Bind(ctx, rows...); err != nil {
		ret.g.opt.Log.ErrorContext(ctx, "ledger not updated", "decision", ret.Decision.ID, "error", err)
	}
}

// A backend may store the streams of runs under names that its callers choose, and
// find them by name alone, wherever the run took place. The owner of such a stream
// is unknown until it arrives.

// RefuseByNameStream refuses a request for a stream that the backend would find by name
// alone, unless the request starts a new run if there is none, or the caller may see
// everything. It returns the reply for a stream that does not exist, and whether to send
// it.
func (g Agents) RefuseByNameStream(ctx context.Context, a *Admission) (memproxy.Reply, bool) {
	if q, found := byNameStream(a); !found || q.Starts {
		return memproxy.Reply{}, false
	}
	g.accounts.release(ctx, a)
	return deny(ctx, g.Gate, a, memproxy.StatusNotFound, memproxy.OwnerUnknown, "the owner of the run that this stream belongs to is unknown"), true
}

// byNameStream returns the request for a stream that the backend would find by name
// alone. It returns false for other requests, and if the stream's owner does not matter:
// in shadow mode, or for a caller who may see everything.
func byNameStream(a *Admission) (memproxy.Resumption, bool) {
	q, resumes := a.Next.(Resume)
	return q.Resumption, resumes && q.Anywhere && a.enforced() && !(a.singleTenant() && a.unlimited())
}

// streamRuns are the runs that the events of a stream named.
type streamRuns struct {
	checked  bool            // whether byNameStream was called
	anywhere bool            // its result
	seen     map[string]bool // whether a run's events may be shown, by run
	showLast bool            // whether the events of the last run named may be shown
	shownAny bool            // an event was shown
	foreign  bool            // another caller's run was named before any event was shown
	withheld int             // events that were withheld
}

// IsForeignStream reports whether the backend answered with the stream of another
// caller's run instead of a new one. The caller has got an error event, and the listener
// need not read the rest.
func (a *Admission) IsForeignStream() bool { return a.streamRuns.foreign }

// maxStreamRuns bounds the runs of one stream that are remembered.
const maxStreamRuns = 64

// filterStreamEvent reports whether an event may be passed on. If the backend may have found another
// caller's stream, only events of runs that the caller may see are. An event without a
// run belongs to the run of the event before it. If a stream begins with another caller's
// run, instead is an error event that replaces its first event.
func filterStreamEvent(ctx context.Context, g *Gate, a *Admission, event []byte) (ok bool, instead []byte) {
	s := &a.streamRuns
	if !s.checked {
		_, s.anywhere = byNameStream(a)
		s.checked, s.seen = true, map[string]bool{}
	}
	if !s.anywhere {
		return true, nil
	}
	run, data := a.call.Backend.Adapter.(backend.AgentRunner).RunOf(event)
	if !data {
		return true, nil // a comment, the end mark
	}
	if run != "" {
		ok, known := s.seen[run]
		if !known && len(s.seen) < maxStreamRuns {
			ok = maySee(ctx, g, a, run)
			s.seen[run] = ok
		}
		s.showLast = ok
	}
	if s.showLast {
		s.shownAny = true
		return true, nil
	}
	s.withheld++
	if run == "" || s.shownAny || s.foreign {
		return false, nil
	}
	s.foreign = true
	d := a.Decision
	d.Refuse(memproxy.StatusForbidden, memproxy.Reason{Code: memproxy.PayloadDuplicate, Detail: "the agent got no message: the ids of these messages (otid) are in use; send them with new ids"})
	reply := a.call.Backend.Adapter.Refuse(a.call.Request, d.Shown())
	return false, memproxy.JoinStreamEvent(reply.Body, []byte("event: error"))
}

// reportWithheld reports withheld events of another caller's stream in the outcome's
// reasons and in the log.
func (ret *answer) reportWithheld(ctx context.Context) {
	if ret.streamRuns.withheld == 0 {
		return
	}
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerForeign, Detail: "the backend answered with the stream of a run that is not the caller's; it was withheld"})
	ret.g.opt.Log.WarnContext(ctx, "the stream of another caller's run was withheld", "decision", ret.Decision.ID, "route", ret.call.Route.ID, "events", ret.streamRuns.withheld)
	ret.streamRuns.withheld = 0
}
