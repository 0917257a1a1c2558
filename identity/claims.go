package identity

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/memproxy/memproxy"
)

// maxSubject is the maximum length of a name in bytes (OpenID Connect Core 1.0, section
// 2: sub has at most 255 ASCII characters).
const maxSubject = 255

func (o OIDCOptions) principalOf(raw map[string]json.RawMessage) (memproxy.Principal, error) {
	id, ok := text(raw, o.Claims.ID)
	if !ok {
		return memproxy.Principal{}, rejected("the token does not have the claim that names its subject")
	}
	if len(id) > maxSubject || strings.ContainsFunc(id, unicode.IsControl) {
		return memproxy.Principal{}, rejected("the token has no usable subject")
	}
	if len(o.Rules) > 0 {
		p, known := o.ruleset().of(id, o.Prefix+id)
		if !known {
			return p, rejected("no rule matches the token's subject")
		}
		return p, nil
	}
	p := memproxy.Principal{ID: o.Prefix + id, Kind: o.Kind, Trust: o.Trust, Method: "oidc"}
	if o.Claims.Tenant != "" {
		// A token without its tenant would share the memories of callers without a
		// tenant.
		if p.Tenant, ok = text(raw, o.Claims.Tenant); !ok || len(p.Tenant) > maxSubject || strings.ContainsFunc(p.Tenant, unicode.IsControl) {
			return memproxy.Principal{}, rejected("the token does not name its tenant")
		}
	}
	p.Roles = list(raw, o.Claims.Roles)
	if s, ok := text(raw, o.Claims.Kind); ok || has(raw, o.Claims.Kind) {
		switch k := memproxy.PrincipalKind(s); k {
		case memproxy.KindAgent, memproxy.KindHuman, memproxy.KindService:
			p.Kind = k
		default:
			return memproxy.Principal{}, rejected("the token names an unknown kind of principal")
		}
	}
	if s, ok := text(raw, o.Claims.Trust); ok || has(raw, o.Claims.Trust) {
		tier := slices.Index(memproxy.Trusts[:], memproxy.Trust(s))
		if tier < 0 {
			return memproxy.Principal{}, rejected("the token names an unknown tier")
		}
		p.Trust = memproxy.Trusts[min(tier, slices.Index(memproxy.Trusts[:], o.MaxTrust))]
	}
	p.ActsAs = limit(raw, o.Claims.ActsAs, false)
	p.Users = limit(raw, o.Claims.Users, true)
	p.Apps = limit(raw, o.Claims.Apps, true)
	p.Runs = limit(raw, o.Claims.Runs, true)
	return p, nil
}

// has reports whether a configured claim is present, even if it cannot be read.
func has(raw map[string]json.RawMessage, name string) bool {
	_, ok := raw[name]
	return name != "" && ok
}

func text(raw map[string]json.RawMessage, name string) (s string, ok bool) {
	r, there := raw[name]
	if name == "" || !there || json.Unmarshal(r, &s) != nil {
		return "", false
	}
	return s, s != ""
}

func list(raw map[string]json.RawMessage, name string) []string {
	r, ok := raw[name]
	if name == "" || !ok {
		return nil
	}
	var many []string
	if json.Unmarshal(r, &many) == nil {
		return many
	}
	var one string
	if json.Unmarshal(r, &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}

// limit reads a limit from a claim. If no claim is configured, the dimension is unlimited
// if open is set, else nothing is allowed (agents). If a claim is configured and the
// token lacks it, nothing is allowed.
func limit(raw map[string]json.RawMessage, name string, open bool) memproxy.Limit {
	if name == "" {
		return memproxy.Limit{All: open}
	}
	return memproxy.LimitTo(list(raw, name))
}
