package config

import (
	"fmt"
	"net"
)

// Warnings are things that are legal and worth a second look.
func (c *Config) Warnings() []string {
	var out []string
	for _, b := range c.Backends {
		host, _, err := net.SplitHostPort(b.Listen)
		if ip := net.ParseIP(host); err == nil && b.TLS.Cert == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			out = append(out, fmt.Sprintf("backend %s listens on %s without TLS: whoever reaches it presents keys in the clear", b.Name, b.Listen))
		}
	}
	if host, _, err := net.SplitHostPort(c.Admin.Listen); err == nil {
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			out = append(out, "the admin listener is reachable from other hosts")
		}
	}
	if c.Profile == "production" && c.Identity.Default != nil {
		out = append(out, fmt.Sprintf("callers that present nothing are taken for %s", c.Identity.Default.ID))
	}
	if !*c.Enforce {
		out = append(out, "enforce is false: nothing is refused")
	}
	return out
}
