package policy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
)

// tables are the limits and ceilings of a bundle as written in bundle.yaml and in a
// release. The keys are those of memproxy.yaml.
type tables struct {
	Budgets    *memproxy.BudgetTable  `yaml:"budgets" json:"budgets,omitzero"`
	Confidence *memproxy.CeilingTable `yaml:"confidence" json:"confidence,omitzero"`
}

// applyTo sets the tables of a bundle. Absent values default to those of the built-in bundle
// and not to the sidecar's configuration, so that a table means the same on every
// sidecar.
func (t tables) applyTo(b *Bundle) error {
	if t.Budgets != nil {
		l, err := t.Budgets.Limits()
		if err != nil {
			return err
		}
		b.Limits = &l
	}
	if t.Confidence != nil {
		c, err := t.Confidence.Ceilings()
		if err != nil {
			return err
		}
		b.Ceilings = &c
	}
	return nil
}

// tablesOf returns a bundle's tables, with all values filled in.
func tablesOf(b Bundle) (t tables) {
	if b.Limits != nil {
		t.Budgets = b.Limits.Table()
	}
	if b.Ceilings != nil {
		t.Confidence = b.Ceilings.Table()
	}
	return t
}

// RaisedLimits describes, in sentences, the limits and ceilings that a newer bundle
// raises. A table that only one of the bundles has cannot be compared, and is reported.
func RaisedLimits(from, to Bundle) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case from.Limits == nil && to.Limits == nil:
	case from.Limits == nil || to.Limits == nil:
		say("budgets: one version has them, the other leaves them to the sidecar")
	default:
		a, b := from.Limits, to.Limits
		rise := func(name string, a, b int64) { // zero is no limit, or inherited in an override
			if a != 0 && (b == 0 || b > a) {
				say("budgets.%s rises from %d to %s", name, a, limit(b))
			}
		}
		row := func(name string, a, b memproxy.WriteLimit) {
			rise(name+".writes_per_hour", a.PerHour, b.PerHour)
			rise(name+".writes_total", a.Total, b.Total)
		}
		rise("together", max(1, a.PrincipalFactor), max(1, b.PrincipalFactor))
		rise("rapid_per_minute", a.RapidPerMinute, b.RapidPerMinute)
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
		say("different screening pack: its decisions are not replayed")
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
