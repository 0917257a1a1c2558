package config

import (
	"cmp"
	"maps"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
)

// fill sets absent keys to their defaults, if the tag has a value ("1s", "1s; a remark",
// or "1h in production, else 0"). A tag that describes a default in words, because it
// depends on other keys, is left to defaults.
func fill(v reflect.Value, production bool) {
	for _, f := range fieldsOf(v.Type()) {
		at := v.FieldByIndex(f.index)
		value, _, _ := strings.Cut(f.def, ";")
		if strict, other, ok := strings.Cut(value, " in production, else "); ok {
			value = other
			if production {
				value = strict
			}
		}
		if value != "" && !strings.Contains(value, " ") && at.Kind() != reflect.Slice && at.IsZero() {
			def := yaml.Node{Kind: yaml.ScalarNode, Value: value}
			if err := def.Decode(at.Addr().Interface()); err != nil {
				panic("config: the default of " + f.key + ": " + err.Error()) // a bug in a tag of this package
			}
		}
		inner := at
		if at.Kind() == reflect.Pointer && !at.IsNil() {
			inner = at.Elem()
		}
		switch {
		case inner.Kind() == reflect.Struct && inner.Type() != secretType:
			fill(inner, production)
		case inner.Kind() == reflect.Slice && inner.Type().Elem().Kind() == reflect.Struct:
			for i := range inner.Len() {
				fill(inner.Index(i), production)
			}
		}
	}
}

// or sets a value if it is absent (zero).
func or[T comparable](at *T, def T) { *at = cmp.Or(*at, def) }

// defaults sets absent keys to the defaults of the profile and the tags. Policies see the
// profile's name as context.profile; docs/configuration.md describes both.
func (c *Config) defaults() {
	production := c.Profile == "production"
	c.Sessions.applyOldNames()
	or(&c.Identity.Require, new(production && c.Identity.Default == nil))
	if !*c.Identity.Require && c.Identity.Default == nil {
		c.Identity.Default = &Principal{ID: "anonymous"}
	}
	if d := c.Identity.Default; d != nil {
		or(&d.Kind, "anonymous")
		or(&d.Trust, "anonymous")
	}
	tenants, open := c.tenants()
	delete(tenants, "") // callers without a tenant share memories only among themselves
	if open || len(tenants) > 1 {
		or(&c.Ownership.Unattributed, "named")
	}
	fill(reflect.ValueOf(c).Elem(), production)
	l := &c.Limits
	or(&l.PerAddress, max(1, l.Connections-l.Connections/4))
	or(&l.InFlightPerAddress, min(48<<20, l.InFlight-l.InFlight/4))
	for i := range c.Backends {
		if b := &c.Backends[i]; b.ConfidenceKeys == nil {
			b.ConfidenceKeys = []string{"confidence", "importance"}
		}
	}
	for i := range c.Review.Reviewers {
		if r := &c.Review.Reviewers[i]; len(r.Roles) == 0 {
			r.Roles = []string{"view", "review"}
		}
	}
	if production {
		c.Sources.production()
		if c.Memories.Pending == nil {
			c.Memories.Pending = []string{string(memproxy.TrustAnonymous), pendingNew}
		}
	}
	ceilings := memproxy.DefaultCeilings().Table()
	maps.Copy(ceilings.Principal, c.Confidence.Principal)
	maps.Copy(ceilings.Source, c.Confidence.Source)
	c.Confidence.Principal, c.Confidence.Source = ceilings.Principal, ceilings.Source
	c.Memories.ttlDefaults()
	c.Memories.governanceDefaults()
	if p := c.Policy.Control; p != nil && p.Node == "" {
		p.Node, _ = os.Hostname() // without a host name, check requires node
	}
	limits := memproxy.DefaultLimits()
	c.Budgets.Default, c.Budgets.Anonymous = c.Budgets.Default.Or(limits.Default), c.Budgets.Anonymous.Or(limits.Anonymous)
}

// SingleTenant reports whether all callers have the same tenant, or all have none. Callers
// without a tenant are separate from those with one.
func (c *Config) SingleTenant() bool {
	tenants, open := c.tenants()
	return !open && len(tenants) <= 1
}

// tenants returns the tenants of the configured callers. open means that tokens may have
// others.
func (c *Config) tenants() (tenants map[string]bool, open bool) {
	tenants = map[string]bool{}
	for _, p := range c.principals() {
		tenants[p.Tenant] = true
	}
	if s := c.Identity.SPIFFE; s != nil && len(s.Rules) == 0 {
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

// applyOldNames applies settings that are given under their old names.
func (s *Sessions) applyOldNames() {
	if s.MaxRejections == nil && s.Strikes > 0 {
		s.MaxRejections = new(s.Strikes)
	}
	or(&s.MaxUserRejections, s.PrincipalStrikes)
	if s.MaxPrincipalRejections == nil && s.MaxUserRejections != nil {
		s.MaxPrincipalRejections = new(10 * *s.MaxUserRejections)
	}
}
