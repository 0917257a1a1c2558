package review

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// CallerNames are the names that callers can have.
type CallerNames struct {
	// Tenants are the configured tenants. OpenTenants is set if tokens may name others.
	Tenants     []string
	OpenTenants bool
	// Principals are the configured callers. OpenPrincipals is set if tokens, certificates
	// or addresses give others.
	Principals     []CallerName
	OpenPrincipals bool
}

// CallerName is a configured caller.
type CallerName struct{ ID, Tenant string }

// BackendName is a configured backend, and the tenant that it is declared for, if any.
type BackendName struct{ Name, Tenant string }

// UnknownTenantError is the error of an operation on a tenant that no caller has and
// nothing was recorded of.
type UnknownTenantError struct {
	Tenant string
	Known  []string
}

func (e *UnknownTenantError) Error() string {
	return fmt.Sprintf("tenant %q not found; known tenants: %s", e.Tenant, listed(e.Known))
}

// Unwrap makes it a memproxy.ErrUnknown.
func (e *UnknownTenantError) Unwrap() error { return memproxy.ErrUnknown }

// maxListed bounds the names that an error lists.
const maxListed = 20

// listed returns names for a message. No name, which callers without a tenant have, is "".
func listed(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	more := ""
	if n := len(names) - maxListed; n > 0 {
		names, more = names[:maxListed], fmt.Sprintf(" and %d more", n)
	}
	out := make([]string, len(names))
	for i, name := range names {
		if out[i] = memproxy.Inert(name); name == "" {
			out[i] = `""`
		}
	}
	return cmp.Or(strings.Join(out, ", "), "none") + more
}

// checkBackend refuses the name of a backend that is not configured. A reviewer sees the
// names of backends that are declared for no tenant or for one that it reviews.
func checkBackend(c *call, name string, status int, code string) error {
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
	return problem{status, code, "backend not found; configured backends: " + strings.Join(known, ", ")}
}

// serves reports whether a backend is declared for no tenant or for one of the reviewer's.
func serves(c *call, b BackendName) bool { return b.Tenant == "" || c.allowed(b.Tenant) }

// checkNames refuses a filter whose tenant or principal is not configured and was never
// recorded, so that a misspelled name does not look like an empty answer. A reviewer sees
// only the names of tenants that it reviews.
func checkNames(c *call, q url.Values, recorded func(tenant *string, principal string) (bool, error)) error {
	tenant, principal, names := q.Get("tenant"), q.Get("principal"), c.api.opt.Names()
	check := func(what string, known []string, tenant *string, principal string) error {
		there, err := recorded(tenant, principal)
		if err != nil || there {
			return err
		}
		return badRequest(what + " not found; configured " + what + "s: " + listed(known))
	}
	if tenant != "" && c.who.Tenants.All && !names.OpenTenants && !slices.Contains(names.Tenants, tenant) {
		if err := check("tenant", names.Tenants, &tenant, ""); err != nil {
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
	if slices.Contains(known, principal) {
		return nil
	}
	of, err := c.tenant(tenant)
	if err != nil {
		return err
	}
	return check("principal", known, of, principal)
}

// unknownTenant is the answer to an operation on an unknown tenant. Only reviewers of all
// tenants see the names of the others.
func unknownTenant(c *call, e *UnknownTenantError) error {
	if !c.who.Tenants.All {
		return notFound()
	}
	return problem{http.StatusNotFound, "unknown", e.Error()}
}
