package gate

import (
	"context"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// unclaimed reports whether a request has no names to bind: all of them have
// rows, or it will not be sent. What shadow mode lets through is sent.
func unclaimed(r *run) bool {
	return r.op == nil || r.dry() || len(r.unbound) == 0 || r.verdict.Stops() && r.enforced()
}

// bind makes the names that a write is the first to use its tenant's. It is
// done before the write leaves: of two tenants that use a name at once, one
// gets it, and the other's write is refused.
func bind(ctx context.Context, r *run) error {
	var rows []memproxy.Ownership
	for _, id := range r.unbound {
		actor := r.Principal.ID
		if d, name, _ := strings.Cut(id, ":"); access.Exists(r.op, memproxy.Dimension(d), name) {
			if r.verdict.Stops() {
				continue // it may be another tenant's: a write that would have been refused does not take it
			}
			actor = "" // somebody made it, around the proxy
		}
		rows = append(rows, memproxy.Ownership{
			Backend: r.op.Backend, Kind: memproxy.TargetEntity, ID: id, Scope: memproxy.Scope{Tenant: r.Principal.Tenant},
			Actor: actor, Trust: r.Principal.Trust, Written: r.begun, // no decision: that is for what it wrote
		})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.g.opt.RecordTimeout)
	defer cancel()
	bound, err := r.g.opt.Ledger.Bind(ctx, rows...)
	if err != nil {
		r.g.release(ctx, r.Admission)
		return err
	}
	for _, row := range bound {
		if row.Scope.Tenant != r.Principal.Tenant {
			r.missing("")
		}
	}
	if r.verdict.Stops() {
		r.g.release(ctx, r.Admission)
	}
	return nil
}

// secrets takes the backend's secrets out of what is shown to callers who do
// not administer it.
func secrets(_ context.Context, ret *answer) (refused bool, err error) {
	w, ok := ret.call.Backend.Adapter.(Withholder)
	if !ok || !ret.Inspect || !ok2xx(ret.reply.Status) || len(ret.reply.Body) == 0 || ret.op.Kind == memproxy.Admin || ret.op.Administers {
		return false, nil
	}
	ret.reply.Body, err = w.Withhold(ret.call.Route, ret.reply.Body)
	return false, err
}

// bindLate remembers the owners of memories that came to be after their write was
// answered (asynchronous extraction): their stamps name the decision.
func bindLate(ctx context.Context, ret *answer) (refused bool, err error) {
	for i := range ret.items {
		if it := &ret.items[i]; !ret.answers && !ret.settled && !it.Drop && it.row == nil && kindOf(it.Memory) == memproxy.TargetMemory && it.Stamp != nil && it.ID != "" {
			bindOne(ctx, ret, it.Memory)
		}
	}
	return false, nil
}

func bindOne(ctx context.Context, ret *answer, m *memproxy.Memory) {
	s := *m.Stamp
	s.Tenant = ret.Principal.Tenant
	if !ret.g.opt.Signer.Verify(s) || ret.examiner().anothers(ctx, nil, m) {
		return
	}
	row := memproxy.Ownership{
		Backend: ret.op.Backend, Kind: memproxy.TargetMemory, ID: m.ID, Scope: m.Scope,
		Actor: s.Actor, Trust: s.Trust, Confidence: s.Confidence, Source: s.Source,
		Decision: s.ID, SHA256: textHash(m.Text), Written: s.Time,
	}
	row.Scope.Tenant = s.Tenant
	ret.late.Owners = append(ret.late.Owners, row)
	ret.late.Versions = append(ret.late.Versions, boundVersion(ret.op.Backend, m, &s))
	ret.late.States = append(ret.late.States, ending(ret, m, &s)...)
}

func kindOf(m *memproxy.Memory) memproxy.TargetKind {
	if m.Kind == "" {
		return memproxy.TargetMemory
	}
	return m.Kind
}
