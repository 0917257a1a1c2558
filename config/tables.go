package config

import "github.com/memproxy/memproxy"

// Limits is the table of budgets.
func (b Budgets) Limits() memproxy.Limits {
	rows := func(m map[string]WriteLimit) map[string]memproxy.WriteLimit {
		out := make(map[string]memproxy.WriteLimit, len(m))
		for k, w := range m {
			out[k] = memproxy.WriteLimit(w)
		}
		return out
	}
	return memproxy.Limits{
		Default: memproxy.WriteLimit(b.Default), Anonymous: memproxy.WriteLimit(b.Anonymous), Overrides: rows(b.Overrides),
		Tenants: rows(b.Tenants), Namespaces: rows(b.Namespaces), Together: b.Together, RapidPerMinute: *b.RapidPerMinute,
	}
}

// Ceilings is the table of confidence: the defaults, with what is configured in
// their place.
func (c Confidence) Ceilings() memproxy.Ceilings {
	out := memproxy.DefaultCeilings()
	for tier, f := range c.Principal {
		out.Principal[memproxy.Trust(tier)] = memproxy.PerMille(f*1000 + 0.5)
	}
	for source, f := range c.Source {
		out.Source[memproxy.Source(source)] = memproxy.PerMille(f*1000 + 0.5)
	}
	if c.Unclaimed != nil {
		out.Unclaimed = memproxy.PerMille(*c.Unclaimed*1000 + 0.5)
	}
	return out
}
