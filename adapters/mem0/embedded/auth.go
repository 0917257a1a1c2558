package embedded

import (
	"crypto/sha256"
	"net/http"
	"strings"
)

// authorise says who may call. A key is bound to no user in Mem0: whoever has
// one reads and writes everybody's memories.
func (b *Backend) authorise(c *call, rt *route) *reply {
	if rt.needs == nothing {
		return nil
	}
	if len(b.opt.Keys) == 0 && b.opt.AdminKey == "" {
		c.admin = true
		return nil
	}
	admin, known := b.keys[sha256.Sum256([]byte(credential(c)))]
	// Looking up a digest tells an attacker nothing about the keys by its time.
	c.admin = known && admin
	switch {
	case !known && len(b.opt.Keys) > 0:
		if c.hosted {
			return detailed(http.StatusUnauthorized, "Invalid API key.")
		}
		out := detailed(http.StatusUnauthorized, "Not authenticated")
		out.header = [][2]string{{"WWW-Authenticate", "Bearer"}}
		return out
	case rt.needs.admin() && !c.admin:
		return detailed(http.StatusForbidden, "Admin privileges required")
	}
	return nil
}

// credential is where each dialect looks for a key, and nowhere else: a hosted
// "Token" is nothing to the self-hosted server, and the other way round.
func credential(c *call) string {
	scheme, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if c.hosted {
		if scheme == "Token" {
			return token
		}
		return ""
	}
	if key := c.r.Header.Get("X-API-Key"); key != "" {
		return key
	}
	if scheme == "Bearer" {
		return token
	}
	return ""
}
