package config

import (
	"fmt"
	"strings"

	"github.com/memproxy/memproxy"
)

// Backend returns the backend of a name; "": the only one.
func (c *Config) Backend(name string) (Backend, error) {
	for _, b := range c.Backends {
		if b.Name == name || name == "" && len(c.Backends) == 1 {
			return b, nil
		}
	}
	return Backend{}, fmt.Errorf("the configuration has no backend %q", name)
}

// Principal returns the configured principal of an id; "": the default one.
func (c *Config) Principal(id string) (memproxy.Principal, error) {
	if id == "" {
		if c.Identity.Default == nil {
			return memproxy.Principal{}, fmt.Errorf("the configuration has no default principal: name one")
		}
		return c.Identity.Default.Memproxy(), nil
	}
	var known []string
	for _, k := range c.Identity.Keys {
		if k.ID == id {
			return k.Memproxy(), nil
		}
		known = append(known, k.ID)
	}
	if d := c.Identity.Default; d != nil && d.ID == id {
		return d.Memproxy(), nil
	}
	return memproxy.Principal{}, fmt.Errorf("the configuration has no principal %q; it has %s", id, strings.Join(known, ", "))
}
