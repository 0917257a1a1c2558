package config

import (
	"fmt"
	"net"
	"net/url"
)

// Warnings are things that are legal and worth a second look.
func (c *Config) Warnings() []string {
	var out []string
	for i, b := range c.Backends {
		for _, other := range c.Backends[:i] {
			if b.Upstream == other.Upstream {
				out = append(out, fmt.Sprintf("backends %s and %s have one upstream: whose memories and names are is kept for each, so neither knows what came in by the other", other.Name, b.Name))
			}
		}
		host, _, err := net.SplitHostPort(b.Listen)
		if err == nil && b.TLS.Cert == "" && !loopback(host) {
			out = append(out, fmt.Sprintf("backend %s listens on %s without TLS: whoever reaches it presents keys in the clear", b.Name, b.Listen))
		}
	}
	if host, _, err := net.SplitHostPort(c.Admin.Listen); err == nil && !loopback(host) {
		out = append(out, "the admin listener is reachable from other hosts")
	}
	if c.Profile == "production" && c.Identity.Default != nil {
		out = append(out, fmt.Sprintf("callers that present nothing are taken for %s", c.Identity.Default.ID))
	}
	if o := c.Identity.OIDC; o != nil {
		if len(o.Rules) > 0 && (len(o.Claims) > 1 || len(o.Claims) == 1 && o.Claims["id"] == "") {
			out = append(out, "identity.oidc has rules, so that no claim but id is read: the others under claims mean nothing")
		}
		if u, err := url.Parse(o.Issuer); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
			out = append(out, "the OIDC issuer's keys are fetched in the clear: whoever can change them can be anybody")
		}
	}
	if !*c.Enforce {
		out = append(out, "enforce is false: nothing is refused")
	}
	return out
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
