package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/memproxy/memproxy"
)

// OwnerName is an owner's name that the configuration lists for callers of a tenant.
type OwnerName struct {
	ID     string // a memproxy.OwnerID
	Tenant string
	Place  string // file:line, or ""

	at []any
}

// OwnerNames returns the names to which callers are limited, once per tenant, in the order of
// the file. A name belongs to its tenant even before its first use.
func (c *Config) OwnerNames() []OwnerName {
	var out []OwnerName
	seen := map[[2]string]bool{}
	for _, p := range c.principals() {
		who := p.ToPrincipal()
		for _, d := range [...]memproxy.Dimension{memproxy.DimAgent, memproxy.DimUser, memproxy.DimApp, memproxy.DimRun} {
			key := string(d) + "s"
			if d == memproxy.DimAgent {
				key = "acts_as"
			}
			limit := who.LimitIn(d)
			for i, name := range limit.Values {
				l := OwnerName{ID: memproxy.OwnerID(d, name), Tenant: who.Tenant, at: append(p.at[:len(p.at):len(p.at)], key, i)}
				if limit.All || name == "" || seen[[2]string{l.ID, l.Tenant}] {
					continue
				}
				seen[[2]string{l.ID, l.Tenant}] = true
				if c.file != nil {
					l.Place = fmt.Sprintf("%s:%d", c.file.name, lineOf(c.file.root, l.at...))
				}
				out = append(out, l)
			}
		}
	}
	return out
}

// configuredPrincipal is a principal of the file, with its method of identification and its
// path in the file.
type configuredPrincipal struct {
	*Principal
	method string
	at     []any
}

func (c *Config) principals() []configuredPrincipal {
	var out []configuredPrincipal
	add := func(p *Principal, method string, at ...any) {
		out = append(out, configuredPrincipal{p, method, append([]any{"identity"}, at...)})
	}
	id := &c.Identity
	if id.Default != nil {
		add(id.Default, "default", "default")
	}
	for i := range id.Keys {
		add(&id.Keys[i].Principal, "key", "keys", i)
	}
	if id.SPIFFE != nil {
		for i := range id.SPIFFE.Rules {
			add(&id.SPIFFE.Rules[i].Principal, "spiffe", "spiffe", "rules", i)
		}
	}
	if id.OIDC != nil {
		for i := range id.OIDC.Rules {
			add(&id.OIDC.Rules[i].Principal, "oidc", "oidc", "rules", i)
		}
	}
	return out
}

// CallerNames returns the names that callers can have.
func (c *Config) CallerNames() memproxy.CallerNames {
	tenants, open := c.tenants()
	id := &c.Identity
	out := memproxy.CallerNames{Tenants: slices.Sorted(maps.Keys(tenants)), OpenTenants: open, OpenPrincipals: id.OIDC != nil || id.SPIFFE != nil || id.Default != nil && id.Default.Kind == "anonymous"}
	for _, p := range c.principals() {
		out.Principals = append(out.Principals, p.ToPrincipal())
	}
	return out
}

// Serves reports whether callers of a tenant may use the backend.
func (b *Backend) Serves(tenant string) bool { return b.Tenant == "" || b.Tenant == tenant }

// sharedNames finds names that are listed for two tenants with a common store, where the
// first writer would own them.
func sharedNames(v *reader, c *Config, at func(...any) int) {
	for _, p := range c.principals() {
		faultIf(v, strings.ContainsFunc(p.Tenant, unicode.IsControl), at(append(p.at, "tenant")...), "tenant has a control character")
	}
	first := map[string][]OwnerName{}
	for _, l := range c.OwnerNames() {
		for _, other := range first[l.ID] {
			if b := c.shared(other.Tenant, l.Tenant); b != nil {
				dim, name, _ := strings.Cut(l.ID, ":")
				v.fault(at(l.at...), "%s %q is listed for tenant %q, and on line %d for tenant %q; both use backend %s, where a name is one tenant's", dim, name, l.Tenant, at(other.at...), other.Tenant, b.Name)
				break
			}
		}
		first[l.ID] = append(first[l.ID], l)
	}
}

// shared returns a backend whose store serves both tenants, or nil.
func (c *Config) shared(one, other string) *Backend {
	for i := range c.Backends {
		for j := range c.Backends {
			if a, b := &c.Backends[i], &c.Backends[j]; a.Serves(one) && b.Serves(other) && sameStore(a, b) {
				return a
			}
		}
	}
	return nil
}
