package config

import (
	"cmp"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
)

// profile is what a profile's name stands for in this file. The policies see
// the name as context.profile and differ too: docs/configuration.md has both.
type profile struct {
	require   bool // callers must present something known
	format    string
	unclaimed string   // members and headers of answers that nobody claims
	ungated   string   // runs that cannot be gated call by call
	outside   string   // keys outside the namespaces
	unnamed   string   // sources whose names the table lacks; "" claim nothing
	waits     []string // tiers of sources whose memories wait for review
	pending   []string // callers whose memories do
	seal      bool     // what backends hold at the first start is recorded
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

// fill gives the keys that are absent their defaults, where the tag has a value
// and not the words for one that depends on other keys.
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

// or puts a default in where a key is absent.
func or[T comparable](at *T, def T) { *at = cmp.Or(*at, def) }

// defaults writes out what the profile and the tags say, where the file says
// nothing.
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

// manyTenants reports whether the configuration knows more than one tenant, or
// cannot know how many there are.
func (c *Config) manyTenants() bool {
	tenants, open := c.tenants()
	delete(tenants, "") // callers without a tenant share one space with nobody
	return open || len(tenants) > 1
}

// OneTenant reports whether all callers are of one tenant, or all of none.
// Callers without a tenant are another than those who have one.
func (c *Config) OneTenant() bool {
	tenants, open := c.tenants()
	return !open && len(tenants) <= 1
}

// tenants are those of the configured callers, and whether there may be others.
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

// oldNames takes over what the file has under the old names.
func (s *Sessions) oldNames() {
	if s.MaxRejections == nil && s.Strikes > 0 {
		s.MaxRejections = new(s.Strikes)
	}
	or(&s.MaxUserRejections, s.PrincipalStrikes)
	if s.MaxPrincipalRejections == nil && s.MaxUserRejections != nil {
		s.MaxPrincipalRejections = new(10 * *s.MaxUserRejections)
	}
}
