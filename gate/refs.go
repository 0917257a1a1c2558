package gate

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// referred rules on the objects that the request names and that it is not
// about: what it is about, own rules on. A running agent's call has no such step.
func (r *run) referred(ctx context.Context) error {
	var ask []string
	at := map[string]*memproxy.Ref{}
	v := r.viewer(r.g.opt.Signer, r.named)
	var rows []memproxy.Ownership
	for i := range r.op.Refs {
		if row := r.named.owner(r.op.Refs[i].Kind, r.op.Refs[i].ID); row != nil {
			rows = append(rows, *row)
		}
	}
	if err := v.lookUp(ctx, r.g, rows, nil); err != nil {
		v.Blind = true
	}
	names := r.names()
	for i := range r.op.Refs {
		ref := &r.op.Refs[i]
		if ref.Kind == memproxy.TargetEntity {
			if !names.Refers(ref) {
				r.missing(ref.Pointer)
			}
			continue
		}
		if !inside(r) && ref.Kind == r.op.TargetKind && slices.Contains(r.op.Targets, ref.ID) {
			continue
		}
		row := r.named.owner(ref.Kind, ref.ID)
		switch {
		case row != nil && !v.Sees(row, &memproxy.Memory{}):
			r.missing(ref.Pointer)
		case ref.Loose:
		case row == nil && at[ref.ID] == nil && (r.rules.Unattributed != access.Visible || access.Limited(&r.Principal)):
			at[ref.ID] = ref
			ask = append(ask, ref.ID)
		}
	}
	if len(ask) == 0 || r.verdict.Stops() && r.enforced() {
		return nil
	}
	return r.discover(ctx, ask, at)
}

// cursor reports whether a reference stands where pages are told apart, and
// names nothing that is done anything to.
func cursor(pointer string) bool {
	switch pointer {
	case "query:before", "query:after", "query:cursor":
		return true
	}
	return strings.HasPrefix(pointer, "header:")
}

// discover asks the backend what the objects belong to of which the ledger
// knows nothing. What cannot be asked about is out of reach where several
// tenants share the backend, but for those who administer it.
func (r *run) discover(ctx context.Context, ask []string, at map[string]*memproxy.Ref) error {
	loc, ok := r.call.Backend.Adapter.(Locator)
	if !ok || r.call.Backend.Fetch == nil || r.dry() {
		return nil
	}
	var some []string
	for _, id := range ask {
		if loc.Locate(r.call.Route, r.call.Request, id).EscapedPath != "" {
			some = append(some, id)
		} else if !r.alone() && r.rules.Unattributed != access.Visible && r.op.Kind != memproxy.Admin && !cursor(at[id].Pointer) {
			r.missing(at[id].Pointer)
		}
	}
	if len(some) == 0 {
		return nil
	}
	if len(some) > maxUnknown {
		r.refuse(StatusUnprocessed, memproxy.Reason{
			Code:   memproxy.LimitSideRequests,
			Detail: "the request refers to " + strconv.Itoa(len(some)) + " objects that memproxy would have to ask the backend about; at most " + strconv.Itoa(maxUnknown) + " are asked about",
		})
		return nil
	}
	found, err := r.located(ctx, loc, some)
	if err != nil {
		return err
	}
	v := r.viewer(r.g.opt.Signer, r.lookups())
	memories := make([]memproxy.Memory, 0, len(found))
	for _, m := range found {
		memories = append(memories, m)
	}
	if err := v.lookUp(ctx, r.g, nil, memories); err != nil {
		v.Blind = true
	}
	for _, id := range some {
		if m := found[id]; m.Missing && !r.alone() || !m.Missing && !v.Sees(nil, &m) {
			r.missing(at[id].Pointer)
		}
	}
	return nil
}
