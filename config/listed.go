package config

import (
	"slices"

	"github.com/memproxy/memproxy"
)

// Listed are the tenants, sorted, whose callers are limited to an owner's name
// among others, by memproxy.OwnerID.
func (c *Config) Listed() map[string][]string {
	out := map[string][]string{}
	add := func(p Principal) {
		who := p.Memproxy()
		for _, d := range [...]memproxy.Dimension{memproxy.DimUser, memproxy.DimAgent, memproxy.DimApp, memproxy.DimRun} {
			limit := who.May(d)
			if limit.All {
				continue
			}
			for _, name := range limit.Values {
				id := memproxy.OwnerID(d, name)
				if at, there := slices.BinarySearch(out[id], who.Tenant); !there {
					out[id] = slices.Insert(out[id], at, who.Tenant)
				}
			}
		}
	}
	for _, k := range c.Identity.Keys {
		add(k.Principal)
	}
	if p := c.Identity.Default; p != nil {
		add(*p)
	}
	if s := c.Identity.SPIFFE; s != nil {
		for _, r := range s.Rules {
			add(r.Principal)
		}
	}
	if o := c.Identity.OIDC; o != nil {
		for _, r := range o.Rules {
			add(r.Principal)
		}
	}
	return out
}
