package access

import (
	"slices"

	"github.com/memproxy/memproxy"
)

// Unattributed says who sees memories that nobody has said the owner of.
type Unattributed string

// The settings for unattributed memories.
const (
	// Visible: whoever may name its user, agent, app and run.
	Visible Unattributed = "visible"
	// Named: only principals whose limits list one of its owners by name. The
	// default where a configuration knows several tenants.
	Named Unattributed = "named"
	// Hidden: nobody.
	Hidden Unattributed = "hidden"
)

// Rows returns what is recorded of the owner of an object, or nil.
type Rows func(kind memproxy.TargetKind, id string) *memproxy.Ownership

// A View answers what one principal may see.
type View struct {
	Principal    *memproxy.Principal
	Unattributed Unattributed
	// Rows has the owners and objects that the memories name. Derived are the
	// objects whose owners follow from what they belong to, Agents the agents of
	// those that the backend was asked for.
	Rows    Rows
	Derived map[string]memproxy.Ownership
	Agents  map[string]string
	// Signed reports whether a stamp is one of the principal's tenant.
	Signed func(memproxy.Stamp) bool
	// Blind is set when the ledger could not be asked: a memory that seems
	// unattributed may then be another tenant's.
	Blind bool
	// Declared is set where the backend is declared to hold the principal's
	// tenant's memories and no others.
	Declared bool
}

// owner is what is known of an owner by its name: as a name, or as an object.
func (v *View) owner(d memproxy.Dimension, name string) *memproxy.Ownership {
	if row := v.Rows(memproxy.TargetEntity, memproxy.OwnerID(d, name)); row != nil {
		return row
	}
	return v.object(memproxy.TargetMemory, name)
}

// object is what is known of an object's owner.
func (v *View) object(kind memproxy.TargetKind, id string) *memproxy.Ownership {
	row := v.Rows(kind, id)
	if derived, is := v.Derived[id]; row == nil && is && kind == memproxy.TargetMemory {
		row = &derived
	}
	return row
}

// Agent is the agent of an object, as it is recorded or as the backend says, or "".
func (v *View) Agent(ref memproxy.Ref) string {
	if row := v.Rows(ref.Kind, ref.ID); row != nil && row.Scope.Agent != "" {
		return row.Scope.Agent
	}
	return v.Agents[ref.ID]
}

// Denies reports whether a memory of which nothing is recorded says itself that
// it is not for the principal: it names an owner whom that may not name, or
// belongs to another tenant. An owner that has just been made with it, and that
// nobody had before, is the maker's.
func (v *View) Denies(m *memproxy.Memory, made []string) bool {
	for _, d := range Dimensions {
		name := m.Scope.In(d)
		if name == "" || v.allows(d, name) {
			continue
		}
		if v.owner(d, name) != nil || !slices.Contains(made, name) {
			return true
		}
	}
	return !m.Common && v.Descent(m) == Foreign
}

// allows reports whether the principal may see what is an owner's: one that it
// may name, or that it made itself.
func (v *View) allows(d memproxy.Dimension, name string) bool {
	return v.Principal.May(d).Allows(name) || MadeBy(v.Principal, v.owner(d, name))
}

// Sees reports whether the principal may see a memory, of which row is what
// the ledger knows (nil: nothing) and m what the backend says.
//
// The tenant comes from the ledger, else from a stamp that verifies under the
// principal's own tenant, else from what the memory belongs to and whom it
// names, else from what the backend is declared to serve; else the memory is
// unattributed. Whatever the tenant, every owner that is named must be one that
// the principal may name.
func (v *View) Sees(row *memproxy.Ownership, m *memproxy.Memory) bool {
	attributed := v.Declared
	switch bond := Unknown; {
	case row != nil:
		if row.Scope.Tenant != v.Principal.Tenant {
			return false
		}
		attributed = true
	case m.Common:
		return true
	case m.Stamp != nil && v.Signed(*m.Stamp):
		attributed = true
	default:
		if bond = v.Descent(m); bond == Foreign {
			return false
		}
		attributed = attributed || bond == Ours
	}
	named, owned := false, false
	for _, d := range Dimensions {
		limit := v.Principal.May(d)
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
		if agent := v.Agent(ref); agent != "" && !v.allows(memproxy.DimAgent, agent) {
			return false
		}
	}
	switch {
	case attributed:
		return true
	case !owned && Limited(v.Principal): // nobody says whose it is, and this caller may not see everybody's
		return false
	case v.Unattributed == Named, v.Unattributed == Visible && v.Blind && v.Principal.Tenant != "":
		return named
	}
	return v.Unattributed == Visible
}

// Descent says whose a memory is of which nothing is recorded, by what it
// belongs to and whom it names.
func (v *View) Descent(m *memproxy.Memory) Bond {
	bond := Unknown
	for _, d := range Dimensions {
		if name := m.Scope.In(d); name != "" {
			bond = bond.With(v.owner(d, name), v.Principal.Tenant)
		}
	}
	for _, ref := range m.Within {
		bond = bond.With(v.object(ref.Kind, ref.ID), v.Principal.Tenant)
	}
	return bond
}
