package access

import (
	"cmp"
	"slices"

	"github.com/memproxy/memproxy"
)

// Unattributed selects who sees memories without a known owner.
type Unattributed string

// The settings for unattributed memories.
const (
	// Visible shows them to callers who may name the memory's user, agent, app and run.
	Visible Unattributed = "visible"
	// Named shows them only to principals whose limits list one of the memory's owners
	// by name. It is the default if a configuration has several tenants.
	Named Unattributed = "named"
	// Hidden shows them to nobody.
	Hidden Unattributed = "hidden"
)

// Rows returns the ledger's ownership row of an object, or nil.
type Rows func(kind memproxy.TargetKind, id string) *memproxy.Ownership

// A View decides what one principal may see.
type View struct {
	Principal    *memproxy.Principal
	Unattributed Unattributed
	// Rows has the owners and objects that the memories name. Derived has the owners of
	// objects, by id, that follow from the objects' parents. Agents has the agents, by
	// object id, of objects that were fetched from the backend.
	Rows    Rows
	Derived map[string]memproxy.Ownership
	Agents  map[string]string
	// Signed reports whether a stamp was signed for the principal's tenant.
	Signed func(memproxy.Stamp) bool
	// Blind is set if the ledger is unavailable: a memory that seems unattributed
	// may then be another tenant's.
	Blind bool
	// Declared is set if the backend is declared to hold only the principal's
	// tenant's memories.
	Declared bool
}

// owner returns the row of an owner by its name, else by the object with this id.
func (v *View) owner(d memproxy.Dimension, name string) *memproxy.Ownership {
	if row := v.Rows(memproxy.TargetEntity, memproxy.OwnerID(d, name)); row != nil {
		return row
	}
	return v.object(memproxy.TargetMemory, name)
}

// object returns the recorded or derived ownership of an object, or nil.
func (v *View) object(kind memproxy.TargetKind, id string) *memproxy.Ownership {
	row := v.Rows(kind, id)
	if derived, is := v.Derived[id]; row == nil && is && kind == memproxy.TargetMemory {
		row = &derived
	}
	return row
}

// Agent returns the agent of an object, from the ledger or from the backend, or "".
func (v *View) Agent(ref memproxy.Ref) string {
	if row := v.Rows(ref.Kind, ref.ID); row != nil && row.Scope.Agent != "" {
		return row.Scope.Agent
	}
	return v.Agents[ref.ID]
}

// Denies reports whether a memory without a record names an owner that excludes the
// principal: one that the principal may not name, or another tenant's. An owner
// that was created together with the memory belongs to its creator.
func (v *View) Denies(m *memproxy.Memory, made []string) bool {
	for _, d := range memproxy.Dimensions {
		name := m.Scope.In(d)
		if name == "" || v.allows(d, name) {
			continue
		}
		if v.owner(d, name) != nil || !slices.Contains(made, name) {
			return true
		}
	}
	return v.excluded(m, m.Scope.HasOwner() || v.Rows(m.TargetKind(), m.ID) != nil) || !m.BuiltIn && v.Descent(m) == Foreign
}

// excluded reports whether a memory is within an object of an agent that the principal may
// not act for: a message names its run, and the run its agent. A message of which no agent
// is known may be any agent's, unless it is placed by its owner or record.
func (v *View) excluded(m *memproxy.Memory, placed bool) bool {
	if v.Principal.ActsAs.All {
		return false
	}
	for _, ref := range m.Parents {
		agent := v.Agent(ref)
		if agent != "" && !v.allows(memproxy.DimAgent, agent) {
			return true
		}
		placed = placed || agent != ""
	}
	return !placed && m.Layer == memproxy.Episodic
}

// allows reports whether the principal may see an owner's memories: it may name the
// owner, or created it.
func (v *View) allows(d memproxy.Dimension, name string) bool {
	return v.Principal.LimitIn(d).Allows(name) || MadeBy(v.Principal, v.owner(d, name))
}

// Sees reports whether the principal may see a memory. row is the ledger's record, or
// nil, and m is the backend's data.
//
// The tenant comes from the ledger, else from a stamp that verifies under the
// principal's own tenant, else from the memory's parents and the owners that it names,
// else from the backend's declaration; else the memory is unattributed. Whatever the
// tenant, the principal must be allowed to name every owner of the memory. A stamp does
// not name the agent of a memory: if no owner is known, a limited principal sees only
// memories that it wrote itself.
func (v *View) Sees(row *memproxy.Ownership, m *memproxy.Memory) bool {
	attributed, stamped := v.Declared, false // stamped: by another principal, without a record
	switch {
	case row != nil && row.Scope.Tenant != v.Principal.Tenant:
		return false
	case row != nil:
		attributed = true
	case m.BuiltIn:
		return true
	case m.Stamp != nil && v.Signed(*m.Stamp):
		attributed = true
		stamped = m.Stamp.Actor != v.Principal.ID
	default:
		relation := v.Descent(m)
		if relation == Foreign {
			return false
		}
		attributed = attributed || relation == Ours
	}
	named, owned := false, false
	for _, d := range memproxy.Dimensions {
		limit := v.Principal.LimitIn(d)
		values := [2]string{m.Scope.In(d)}
		if row != nil && (d != memproxy.DimAgent || values[0] == "" || !m.Mutable) { // a block is shown in every agent that it is attached to
			values[1] = row.Scope.In(d)
		}
		if row != nil && row.Kind == memproxy.TargetExport && !MadeBy(v.Principal, row) {
			values[1] = cmp.Or(values[1], AnyOwner) // it has the memories of every owner to which it was not restricted
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
	for i := 0; i < len(m.Parents) && !owned && !v.Principal.ActsAs.All; i++ {
		// The agent itself, or the nearest object, names the owner to a caller who may act for that agent.
		agent := v.Agent(m.Parents[i])
		owned = agent != "" && (agent == m.Parents[i].ID || i == len(m.Parents)-1)
	}
	switch {
	case v.excluded(m, owned || row != nil):
		return false
	case stamped && !owned && len(m.Parents) == 0 && Limited(v.Principal):
		return false
	case attributed:
		return true
	case !owned && Limited(v.Principal): // the owner is unknown, and a limited caller may not see everybody's
		return false
	case v.Unattributed == Named, v.Unattributed == Visible && v.Blind && v.Principal.Tenant != "":
		return named
	}
	return v.Unattributed == Visible
}

// Descent returns the relation of a memory without a record, by its parents and the owners
// that it names.
func (v *View) Descent(m *memproxy.Memory) Relation {
	relation := Unknown
	for _, d := range memproxy.Dimensions {
		if name := m.Scope.In(d); name != "" {
			relation = relation.With(v.owner(d, name), v.Principal.Tenant)
		}
	}
	for _, ref := range m.Parents {
		relation = relation.With(v.object(ref.Kind, ref.ID), v.Principal.Tenant)
	}
	return relation
}
