package config

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// sameStore reports whether two backends have the same upstream, as far as their
// addresses show.
func sameStore(a, b *Backend) bool {
	plain := func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			return raw
		}
		host := strings.ToLower(u.Hostname())
		if loopback(host) {
			host = "localhost"
		}
		return host + ":" + portOf(u) + strings.TrimRight(u.Path, "/")
	}
	return plain(a.Upstream) == plain(b.Upstream)
}

func oneUpstream(a, b *Backend) string {
	return fmt.Sprintf("backends %s and %s have one upstream: whose memories and names are is kept for each, so neither knows what came in by the other", a.Name, b.Name)
}

// Warnings describes valid but questionable settings.
func (c *Config) Warnings() []string {
	var out []string
	for i, b := range c.Backends {
		for _, other := range c.Backends[:i] {
			if sameStore(&other, &b) {
				out = append(out, oneUpstream(&other, &b))
			}
		}
		host, _, err := net.SplitHostPort(b.Listen)
		if err == nil && b.TLS.Cert == "" && !loopback(host) {
			out = append(out, fmt.Sprintf("backend %s listens on %s without TLS: whoever reaches it presents keys in the clear", b.Name, b.Listen))
		}
		if b.Credential.Reveal() == "" && strings.HasPrefix(b.Upstream, "https://") {
			out = append(out, fmt.Sprintf("backend %s has no credential: one that wants a key refuses approved writes, rollbacks, the seal and sweeps", b.Name))
		}
	}
	if host, _, err := net.SplitHostPort(c.Admin.Listen); err == nil && !loopback(host) {
		out = append(out, "the admin listener is reachable from other hosts")
	}
	if w := c.Unidentified(); w != "" {
		out = append(out, w)
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

// Unidentified describes how production serves callers without a credential, or is ""
// if it refuses them.
func (c *Config) Unidentified() string {
	if c.Profile != "production" || c.Identity.Default == nil {
		return ""
	}
	return fmt.Sprintf("callers that present nothing are taken for %s, of trust %s", c.Identity.Default.ID, c.Identity.Default.Trust)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
