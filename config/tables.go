package config

import (
	"maps"

	"github.com/memproxy/memproxy"
)

// Limits converts the budgets.
func (b Budgets) Limits() memproxy.Limits {
	rows := func(m map[string]WriteLimit) map[string]memproxy.WriteLimit {
		out := make(map[string]memproxy.WriteLimit, len(m))
		for k, w := range m {
			out[k] = memproxy.WriteLimit(w)
		}
		return out
	}
	namespaces := map[string]memproxy.WriteLimit{}
	for field, w := range rows(b.Namespaces) {
		namespaces[memproxy.Key(field)] = w
	}
	return memproxy.Limits{
		Default: memproxy.WriteLimit(b.Default), Anonymous: memproxy.WriteLimit(b.Anonymous), Overrides: rows(b.Overrides),
		Tenants: rows(b.Tenants), Namespaces: namespaces, Together: b.Together, RapidPerMinute: *b.RapidPerMinute,
	}
}

// Ceilings converts the ceilings.
func (c Confidence) Ceilings() memproxy.Ceilings {
	out := memproxy.DefaultCeilings()
	for tier, f := range c.Principal {
		out.Principal[memproxy.Trust(tier)] = perMille(f)
	}
	for source, f := range c.Source {
		out.Source[memproxy.Source(source)] = perMille(f)
	}
	if c.Unclaimed != nil {
		out.Unclaimed = perMille(*c.Unclaimed)
	}
	return out
}

func perMille(f float64) memproxy.PerMille { return memproxy.PerMille(f*1000 + 0.5) }

// ceilingsOf merges the given ceilings into the default ones.
func ceilingsOf[T ~string](given map[string]float64, byDefault map[T]memproxy.PerMille) map[string]float64 {
	out := map[string]float64{}
	for tier, p := range byDefault {
		out[string(tier)] = float64(p) / 1000
	}
	maps.Copy(out, given)
	return out
}
