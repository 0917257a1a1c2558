package gate

import "github.com/memproxy/memproxy"

// viewer answers what one principal may see.
type viewer struct {
	principal *memproxy.Principal
	rules     *Rules
	signer    Signer
	// blind is set when the ledger could not be asked: a memory that seems
	// unattributed may then be another tenant's.
	blind bool
}

var dimensions = [...]memproxy.Dimension{memproxy.DimUser, memproxy.DimAgent, memproxy.DimApp, memproxy.DimRun}

// sees reports whether the principal may see a memory, of which row is what
// the ledger knows (nil: nothing) and m what the backend says.
//
// The tenant comes from the ledger, else from a stamp that verifies under the
// principal's own tenant; else the memory is unattributed. Whatever the
// tenant, every owner that is named must be one that the principal may name.
func (v viewer) sees(row *memproxy.Ownership, m *memproxy.Memory) bool {
	attributed := false
	switch {
	case row != nil:
		if row.Scope.Tenant != v.principal.Tenant {
			return false
		}
		attributed = true
	case m.Stamp != nil:
		s := *m.Stamp
		s.Tenant = v.principal.Tenant
		attributed = v.signer.Verify(s)
	}
	named, owned := false, false
	for _, d := range dimensions {
		limit := v.principal.May(d)
		values := [2]string{m.Scope.In(d)}
		if row != nil {
			values[1] = row.Scope.In(d)
		}
		for _, value := range values {
			if value == "" {
				continue
			}
			owned = true
			if !limit.Allows(value) {
				return false
			}
			named = named || !limit.All
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

// limited reports whether the principal is limited in any dimension.
func (v viewer) limited() bool {
	for _, d := range dimensions {
		if !v.principal.May(d).All {
			return true
		}
	}
	return false
}
