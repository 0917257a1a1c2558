package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// BackendName is a configured backend, and the tenant that it is declared for, if any.
type BackendName struct{ Name, Tenant string }

// UnknownTenantError is the error of an operation on a tenant that no caller has and
// nothing was recorded of. Only reviewers of all tenants see its text.
type UnknownTenantError struct {
	Tenant string
	Known  []string
}

func (e *UnknownTenantError) Error() string {
	return fmt.Sprintf("tenant %q not found; known tenants: %s", e.Tenant, joinNames(e.Known))
}

// Misuse makes it an error of the command line.
func (*UnknownTenantError) Misuse() bool { return true }

// Unwrap makes it a memproxy.ErrUnknown.
func (e *UnknownTenantError) Unwrap() error { return memproxy.ErrUnknown }

// maxListed bounds the names that an error lists.
const maxListed = 20

// joinNames returns names for a message. No name, which callers without a tenant have, is "".
func joinNames(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	more := ""
	if n := len(names) - maxListed; n > 0 {
		names, more = names[:maxListed], fmt.Sprintf(" and %d more", n)
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = memproxy.Inert(name)
		if name == "" {
			out[i] = `""`
		}
	}
	return cmp.Or(strings.Join(out, ", "), "none") + more
}

// checkBackend refuses the name of a backend that is not configured. A reviewer sees the
// names of backends that are declared for no tenant or for one that it reviews.
func checkBackend(c *call, name string) error {
	all := c.api.opt.Backends
	if name == "" || all == nil || slices.ContainsFunc(all, func(b BackendName) bool { return b.Name == name }) {
		return nil
	}
	var known []string
	for _, b := range all {
		if serves(c, b) {
			known = append(known, b.Name)
		}
	}
	return badRequest("backend not found; configured backends: " + strings.Join(known, ", "))
}

// serves reports whether a backend is declared for no tenant or for one of the reviewer's.
func serves(c *call, b BackendName) bool { return b.Tenant == "" || c.allowed(b.Tenant) }

// checkNames refuses a filter without results whose tenant or principal is not configured and
// was never recorded, so that a misspelled name does not look like an empty answer. A reviewer
// sees only the names of tenants that it reviews.
func checkNames(c *call, tenant *string, principal string, recorded func(tenant *string, principal string) (bool, error)) error {
	check := func(what, name string, known []string, tenant *string, principal string) error {
		if slices.Contains(known, name) {
			return nil
		}
		there, err := recorded(tenant, principal)
		if err != nil || there {
			return err
		}
		return badRequest(what + " not found; configured " + what + "s: " + joinNames(known))
	}
	names := c.api.opt.Names()
	if tenant != nil && c.who.Tenants.All && !names.OpenTenants {
		if err := check("tenant", *tenant, names.Tenants, tenant, ""); err != nil {
			return err
		}
	}
	if principal == "" || names.OpenPrincipals {
		return nil
	}
	var known []string
	for _, p := range names.Principals {
		if c.allowed(p.Tenant) {
			known = append(known, p.ID)
		}
	}
	return check("principal", principal, known, tenant, principal)
}
