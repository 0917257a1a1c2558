package gate

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
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
		v.blind = true
	}
	for i := range r.op.Refs {
		ref := &r.op.Refs[i]
		if ref.Kind == memproxy.TargetEntity {
			r.referredName(ref)
			continue
		}
		if !inside(r) && ref.Kind == r.op.TargetKind && slices.Contains(r.op.Targets, ref.ID) {
			continue
		}
		row := r.named.owner(ref.Kind, ref.ID)
		switch {
		case row != nil && !v.sees(row, &memproxy.Memory{}):
			r.missing(ref.Pointer)
		case ref.Loose:
		case row == nil && at[ref.ID] == nil && (r.rules.Unattributed != UnattributedVisible || v.limited()):
			at[ref.ID] = ref
			ask = append(ask, ref.ID)
		}
	}
	if len(ask) == 0 || r.verdict.Stops() && r.enforced() {
		return nil
	}
	return r.discover(ctx, ask, at)
}

// referredName rules on an owner that is referred to by its name.
func (r *run) referredName(ref *memproxy.Ref) {
	dim, name, _ := strings.Cut(ref.ID, ":")
	switch r.bond(memproxy.Dimension(dim), name) {
	case foreignName:
		r.missing(ref.Pointer)
	case unknownName:
		// Names that come to be by being used are no references.
		if !r.alone() && r.rules.Unattributed != UnattributedVisible {
			r.missing(ref.Pointer)
		}
	}
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
		} else if !r.alone() && r.rules.Unattributed != UnattributedVisible && r.op.Kind != memproxy.Admin && !cursor(at[id].Pointer) {
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
		v.blind = true
	}
	for _, id := range some {
		if m := found[id]; m.Missing && !r.alone() || !m.Missing && !v.sees(nil, &m) {
			r.missing(at[id].Pointer)
		}
	}
	return nil
}
