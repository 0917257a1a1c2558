package gate

import (
	"context"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// viewer is a view of one principal, with where to ask for what it needs.
type viewer struct {
	access.View
	known *lookups
	call  *Admission // what is judged, for asking its backend
}

func (a *Admission) viewer(signer Signer, known *lookups) viewer {
	t := a.call.Backend.Tenant
	return viewer{known: known, call: a, View: access.View{
		Principal: &a.Principal, Unattributed: a.rules.Unattributed, Rows: known.owner, Declared: t != "" && t == a.Principal.Tenant,
		Signed: func(s memproxy.Stamp) bool {
			s.Tenant = a.Principal.Tenant
			return signer.Verify(s)
		},
	}}
}

// lookUp finds out what is needed to judge rows, and memories of which there
// are none: whose the owners and objects are that they name. An error means
// that nothing is known of them. Also are asked about along with them.
func (v *viewer) lookUp(ctx context.Context, g *Gate, rows []memproxy.Ownership, bare []memproxy.Memory, also ...memproxy.MemoryKey) error {
	ask := func(kind memproxy.TargetKind, id string) { also = append(also, v.known.key(kind, id)) }
	named := func(s *memproxy.Scope, all bool) {
		for _, d := range access.Dimensions {
			name := s.In(d)
			if name == "" || !all && v.Principal.May(d).Allows(name) {
				continue
			}
			ask(memproxy.TargetEntity, memproxy.OwnerID(d, name))
			ask(memproxy.TargetMemory, name)
		}
	}
	for i := range rows {
		named(&rows[i].Scope, false)
	}
	for i := range bare {
		named(&bare[i].Scope, true)
		for _, ref := range bare[i].Within {
			ask(ref.Kind, ref.ID)
		}
	}
	if err := v.known.need(ctx, also...); err != nil {
		return err
	}
	if err := v.ascend(ctx, g, bare); err != nil || v.Principal.ActsAs.All {
		return err
	}
	also = also[:0]
	for i := range bare {
		for _, ref := range bare[i].Within {
			named(&memproxy.Scope{Agent: v.Agent(ref)}, false)
		}
	}
	return v.known.need(ctx, also...)
}
