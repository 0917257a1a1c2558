package config

import (
	"cmp"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
)

// profile holds the defaults that a profile selects. Policies see its name as
// context.profile: docs/configuration.md describes both.
type profile struct {
	require   bool // refuse callers without a credential
	format    string
	unclaimed string   // answers.unclaimed and answers.headers
	ungated   string   // backends.ungated
	outside   string   // memories.namespaces.outside
	unnamed   string   // tier of sources that are not in the table; "": none
	waits     []string // sources.pending
	pending   []string // memories.pending
	seal      bool     // memories.seal
	sweep     Duration
}

func profileOf(name string) profile {
	if name == "production" {
		return profile{
			require: true, format: "json", ungated: "deny", unclaimed: "drop", outside: "mark", unnamed: string(memproxy.SourceUntrusted),
			waits: []string{string(memproxy.SourceHostile)}, pending: []string{string(memproxy.TrustAnonymous), pendingNew}, seal: true, sweep: Duration(time.Hour),
		}
	}
	return profile{require: false, format: "text", ungated: "compensate", unclaimed: "pass", outside: "allow"}
}

// fill sets absent keys to their defaults, if the tag has a value and not a description
// of one that depends on other keys.
func fill(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		at := v.FieldByIndex(f.index)
		if f.def != "" && !strings.ContainsAny(f.def, " ;") && at.IsZero() {
			def := yaml.Node{Kind: yaml.ScalarNode, Value: f.def}
			if err := def.Decode(at.Addr().Interface()); err != nil {
				panic("config: the default of " + f.key + ": " + err.Error()) // a tag of this package
			}
		}
		inner := at
		if at.Kind() == reflect.Pointer && !at.IsNil() {
			inner = at.Elem()
		}
		switch {
		case inner.Kind() == reflect.Struct && inner.Type() != secretType:
			fill(inner)
		case inner.Kind() == reflect.Slice && inner.Type().Elem().Kind() == reflect.Struct:
			for i := range inner.Len() {
				fill(inner.Index(i))
			}
		}
	}
}

// or sets a value that is absent.
func or[T comparable](at *T, def T) { *at = cmp.Or(*at, def) }

// defaults sets absent keys to the defaults of the profile and the tags.
func (c *Config) defaults() {
	c.Sessions.oldNames()
	fill(reflect.ValueOf(c).Elem())
	by := profileOf(c.Profile)
	l := &c.Limits
	or(&l.PerAddress, max(1, l.Connections-l.Connections/4))
	or(&l.OneInFlight, min(48<<20, l.InFlight-l.InFlight/4))
	or(&c.Identity.Require, new(by.require && c.Identity.Default == nil))
	if !*c.Identity.Require && c.Identity.Default == nil {
		c.Identity.Default = &Principal{ID: "anonymous"}
	}
	if d := c.Identity.Default; d != nil {
		or(&d.Kind, "anonymous")
		or(&d.Trust, "anonymous")
	}
	for _, p := range c.principals() {
		or(&p.Kind, "agent")
		or(&p.Trust, "authenticated")
	}
	unattributed := "visible"
	if c.manyTenants() {
		unattributed = "named"
	}
	or(&c.Ownership.Unattributed, unattributed)
	or(&c.Answers.Unclaimed, by.unclaimed)
	or(&c.Answers.Headers, by.unclaimed)
	for i := range c.Backends {
		b := &c.Backends[i]
		or(&b.Ungated, by.ungated)
		or(&b.FieldKey, "field")
		if b.ConfidenceKeys == nil {
			b.ConfidenceKeys = []string{"confidence", "importance"}
		}
	}
	for i := range c.Review.Reviewers {
		if r := &c.Review.Reviewers[i]; len(r.Roles) == 0 {
			r.Roles = []string{"view", "review"}
		}
	}
	c.Sources.defaults(by)
	ceilings := memproxy.DefaultCeilings()
	c.Confidence.Principal = ceilingsOf(c.Confidence.Principal, ceilings.Principal)
	c.Confidence.Source = ceilingsOf(c.Confidence.Source, ceilings.Source)
	c.Memories.ttlDefaults()
	if c.Memories.Pending == nil {
		c.Memories.Pending = by.pending
	}
	or(&c.Memories.Seal, &by.seal)
	or(&c.Memories.Sweep, &by.sweep)
	c.Memories.governanceDefaults(by.outside)
	if c.Policy.Control != nil {
		c.Policy.Control.defaults()
	}
	limits := memproxy.DefaultLimits()
	c.Budgets.Default = WriteLimit(memproxy.WriteLimit(c.Budgets.Default).Or(limits.Default))
	c.Budgets.Anonymous = WriteLimit(memproxy.WriteLimit(c.Budgets.Anonymous).Or(limits.Anonymous))
	or(&c.Log.Format, by.format)
}

// manyTenants reports whether there is more than one tenant, or may be.
func (c *Config) manyTenants() bool {
	tenants, open := c.tenants()
	delete(tenants, "") // callers without a tenant share their memories with nobody else
	return open || len(tenants) > 1
}

// OneTenant reports whether all callers have the same tenant, or none has one. Callers
// without a tenant differ from those with one.
func (c *Config) OneTenant() bool {
	tenants, open := c.tenants()
	return !open && len(tenants) <= 1
}

// tenants are those of the configured callers; open: tokens may have others.
func (c *Config) tenants() (tenants map[string]bool, open bool) {
	tenants = map[string]bool{}
	for _, p := range c.principals() {
		tenants[p.Tenant] = true
	}
	if c.Identity.Default == nil && c.Identity.Require != nil && !*c.Identity.Require {
		tenants[""] = true
	}
	if o := c.Identity.OIDC; o != nil {
		if o.Claims["tenant"] != "" {
			return tenants, true
		}
		if len(o.Rules) == 0 {
			tenants[""] = true
		}
	}
	return tenants, false
}

// oldNames applies settings under their old names.
func (s *Sessions) oldNames() {
	if s.MaxRejections == nil && s.Strikes > 0 {
		s.MaxRejections = new(s.Strikes)
	}
	or(&s.MaxUserRejections, s.PrincipalStrikes)
	if s.MaxPrincipalRejections == nil && s.MaxUserRejections != nil {
		s.MaxPrincipalRejections = new(10 * *s.MaxUserRejections)
	}
}
