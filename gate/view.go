package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

// viewer answers what one principal may see.
type viewer struct {
	principal *memproxy.Principal
	rules     *Rules
	signer    Signer
	// blind is set when the ledger could not be asked: a memory that seems
	// unattributed may then be another tenant's.
	blind bool
	// declared is set where the backend is declared to hold the principal's
	// tenant's memories and no others.
	declared bool
	// known has the owners and objects that the memories name (see lookUp),
	// derived the objects whose owners follow from what they belong to (see ascend).
	known   *lookups
	derived map[string]memproxy.Ownership
	// agents are those of the objects that the backend was asked for.
	agents map[string]string
	// call is what is judged, for asking its backend.
	call *Admission
}

func (a *Admission) viewer(signer Signer, known *lookups) viewer {
	t := a.call.Backend.Tenant
	return viewer{principal: &a.Principal, rules: a.rules, signer: signer, call: a, known: known, declared: t != "" && t == a.Principal.Tenant}
}

// lookUp finds out what is needed to judge rows, and memories of which there
// are none: whose the owners and objects are that they name. An error means
// that nothing is known of them. Also are asked about along with them.
func (v *viewer) lookUp(ctx context.Context, g *Gate, rows []memproxy.Ownership, bare []memproxy.Memory, also ...memproxy.MemoryKey) error {
	ask := func(kind memproxy.TargetKind, id string) { also = append(also, v.known.key(kind, id)) }
	named := func(s *memproxy.Scope, all bool) {
		for _, d := range dimensions {
			name := s.In(d)
			if name == "" || !all && v.principal.May(d).Allows(name) {
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
	if err := v.ascend(ctx, g, bare); err != nil || v.principal.ActsAs.All {
		return err
	}
	also = also[:0]
	for i := range bare {
		for _, ref := range bare[i].Within {
			named(&memproxy.Scope{Agent: v.agent(ref)}, false)
		}
	}
	return v.known.need(ctx, also...)
}

// owner is what is known of an owner by its name: as a name, or as an object.
func (v viewer) owner(d memproxy.Dimension, name string) *memproxy.Ownership {
	if row := v.known.owner(memproxy.TargetEntity, memproxy.OwnerID(d, name)); row != nil {
		return row
	}
	return v.object(memproxy.TargetMemory, name)
}

// object is what is known of an object's owner.
func (v viewer) object(kind memproxy.TargetKind, id string) *memproxy.Ownership {
	row := v.known.owner(kind, id)
	if derived, is := v.derived[id]; row == nil && is && kind == memproxy.TargetMemory {
		row = &derived
	}
	return row
}

// agent is the agent of an object, as it is recorded or as the backend says, or "".
func (v viewer) agent(ref memproxy.Ref) string {
	if row := v.known.owner(ref.Kind, ref.ID); row != nil && row.Scope.Agent != "" {
		return row.Scope.Agent
	}
	return v.agents[ref.ID]
}

// denies reports whether a memory of which nothing is recorded says itself that
// it is not for the principal: it names an owner whom that may not name, or
// belongs to another tenant. An owner that has just been made with it, and that
// nobody had before, is the maker's.
func (v viewer) denies(m *memproxy.Memory, made []string) bool {
	for _, d := range dimensions {
		name := m.Scope.In(d)
		if name == "" || v.allows(d, name) {
			continue
		}
		if v.owner(d, name) != nil || !slices.Contains(made, name) {
			return true
		}
	}
	return !m.Common && v.descent(m) == foreignName
}

// allows reports whether the principal may see what is an owner's: one that it
// may name, or that it made itself.
func (v viewer) allows(d memproxy.Dimension, name string) bool {
	if v.principal.May(d).Allows(name) {
		return true
	}
	return madeBy(v.principal, v.owner(d, name))
}

var dimensions = [...]memproxy.Dimension{memproxy.DimUser, memproxy.DimAgent, memproxy.DimApp, memproxy.DimRun}

// sees reports whether the principal may see a memory, of which row is what
// the ledger knows (nil: nothing) and m what the backend says.
//
// The tenant comes from the ledger, else from a stamp that verifies under the
// principal's own tenant, else from what the memory belongs to and whom it
// names, else from what the backend is declared to serve; else the memory is
// unattributed. Whatever the
// tenant, every owner that is named must be one that the principal may name.
func (v viewer) sees(row *memproxy.Ownership, m *memproxy.Memory) bool {
	attributed := false
	switch {
	case row != nil:
		if row.Scope.Tenant != v.principal.Tenant {
			return false
		}
		attributed = true
	case m.Common:
		return true
	case m.Stamp != nil:
		s := *m.Stamp
		s.Tenant = v.principal.Tenant
		attributed = v.signer.Verify(s)
	}
	if !attributed {
		switch v.descent(m) {
		case foreignName:
			return false
		case ourName:
			attributed = true
		}
		attributed = attributed || v.declared
	}
	named, owned := false, false
	for _, d := range dimensions {
		limit := v.principal.May(d)
		values := [2]string{m.Scope.In(d)}
		if row != nil && (d != memproxy.DimAgent || values[0] == "" || !m.Mutable) { // a block is shown in every agent that it was attached to
			values[1] = row.Scope.In(d)
		}
		for _, value := range values {
			if value == "" {
				continue
			}
			owned = true
			if !v.allows(d, value) {
				return false
			}
			named = named || !limit.All
		}
	}
	for _, ref := range m.Within { // a message says its run, and the run its agent
		if agent := v.agent(ref); agent != "" && !v.allows(memproxy.DimAgent, agent) {
			return false
		}
	}
	if attributed {
		return true
	}
	if !owned && v.limited() {
		return false // nobody says whose it is, and this caller may not see everybody's
	}
	setting := v.rules.Unattributed
	if v.blind && v.principal.Tenant != "" && setting == UnattributedVisible {
		setting = UnattributedNamed
	}
	switch setting {
	case UnattributedVisible:
		return true
	case UnattributedNamed:
		return named
	}
	return false
}

// descent says whose a memory is of which nothing is recorded, by what it
// belongs to and whom it names.
func (v viewer) descent(m *memproxy.Memory) bond {
	bond := unknownName
	of := func(row *memproxy.Ownership) { bond = bond.with(row, v.principal.Tenant) }
	for _, d := range dimensions {
		if name := m.Scope.In(d); name != "" {
			of(v.owner(d, name))
		}
	}
	for _, ref := range m.Within {
		of(v.object(ref.Kind, ref.ID))
	}
	return bond
}

// madeBy reports whether a principal made what a row is of.
func madeBy(p *memproxy.Principal, row *memproxy.Ownership) bool {
	return row != nil && row.Actor != "" && row.Actor == p.ID && row.Scope.Tenant == p.Tenant
}

// limited reports whether the principal is limited in any dimension.
func (v viewer) limited() bool {
	for _, d := range dimensions {
		if !v.principal.May(d).All {
			return true
		}
	}
	return false
}
