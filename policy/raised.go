package policy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
)

// Raised describes the limits and ceilings that a newer bundle raises, one sentence
// each. A table that only one of the bundles has cannot be compared, and is reported.
func Raised(from, to Bundle) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case from.Limits == nil && to.Limits == nil:
	case from.Limits == nil || to.Limits == nil:
		say("budgets: one version has them, the other leaves them to the sidecar")
	default:
		a, b := from.Limits, to.Limits
		row := func(name string, a, b memproxy.WriteLimit) {
			// Zero means no limit, or inherited in an override.
			if a.PerHour != 0 && (b.PerHour == 0 || b.PerHour > a.PerHour) {
				say("budgets.%s.writes_per_hour rises from %d to %s", name, a.PerHour, limit(b.PerHour))
			}
			if a.Total != 0 && (b.Total == 0 || b.Total > a.Total) {
				say("budgets.%s.writes_total rises from %d to %s", name, a.Total, limit(b.Total))
			}
		}
		if b.Together > a.Together {
			say("budgets.together rises from %d to %d", a.Together, b.Together)
		}
		row("default", a.Default, b.Default)
		row("anonymous", a.Anonymous, b.Anonymous)
		for _, k := range keys(a.Tenants, b.Tenants) {
			row("tenants."+k, a.Tenant(k), b.Tenant(k))
		}
		for _, k := range keys(a.Namespaces, b.Namespaces) {
			row("namespaces."+k, a.Namespaces[k], b.Namespaces[k])
		}
		for _, k := range keys(a.Overrides, b.Overrides) {
			row("overrides."+k, a.Overrides[k].Or(a.Default), b.Overrides[k].Or(b.Default))
		}
	}
	switch {
	case from.Ceilings == nil && to.Ceilings == nil:
	case from.Ceilings == nil || to.Ceilings == nil:
		say("confidence: one version has it, the other leaves it to the sidecar")
	default:
		share := func(name string, a, b memproxy.PerMille) {
			if b > a {
				say("confidence.%s rises from %d to %d per mille", name, a, b)
			}
		}
		a, b := from.Ceilings, to.Ceilings
		for _, k := range keys(a.Principal, b.Principal) {
			share("principal."+string(k), a.Principal[k], b.Principal[k])
		}
		for _, k := range keys(a.Source, b.Source) {
			share("source."+string(k), a.Source[k], b.Source[k])
		}
		share("unclaimed", a.Unclaimed, b.Unclaimed)
	}
	if string(from.Screening) != string(to.Screening) {
		say("another screening pack: what it lets through is not replayed")
	}
	return out
}

func limit(n int64) string {
	if n == 0 {
		return "no limit"
	}
	return fmt.Sprint(n)
}

func keys[K ~string, V any](a, b map[K]V) []K {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
