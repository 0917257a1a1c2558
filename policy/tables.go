package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
)

// tables are the limits and ceilings of a bundle as written in bundle.yaml and in a
// release. The keys are those of memproxy.yaml.
type tables struct {
	Budgets    *budgetTable     `yaml:"budgets" json:"budgets,omitzero"`
	Confidence *confidenceTable `yaml:"confidence" json:"confidence,omitzero"`
}

type budgetTable struct {
	Default        memproxy.WriteLimit            `yaml:"default" json:"default,omitzero"`
	Anonymous      memproxy.WriteLimit            `yaml:"anonymous" json:"anonymous,omitzero"`
	Overrides      map[string]memproxy.WriteLimit `yaml:"overrides" json:"overrides,omitempty"`
	Tenants        map[string]memproxy.WriteLimit `yaml:"tenants" json:"tenants,omitempty"`
	Namespaces     map[string]memproxy.WriteLimit `yaml:"namespaces" json:"namespaces,omitempty"`
	Together       *int64                         `yaml:"together" json:"together,omitzero"`
	RapidPerMinute *int64                         `yaml:"rapid_per_minute" json:"rapid_per_minute,omitzero"`
}

type confidenceTable struct {
	Principal map[memproxy.Trust]float64  `yaml:"principal" json:"principal,omitempty"`
	Source    map[memproxy.Source]float64 `yaml:"source" json:"source,omitempty"`
	Unclaimed *float64                    `yaml:"unclaimed" json:"unclaimed,omitzero"`
}

// applyTo sets the tables of a bundle. Absent values default to those of the built-in bundle
// and not to the sidecar's configuration, so that a table means the same on every
// sidecar.
func (t tables) applyTo(b *Bundle) error {
	if t.Budgets != nil {
		l, err := t.Budgets.limits()
		if err != nil {
			return err
		}
		b.Limits = &l
	}
	if t.Confidence != nil {
		c, err := t.Confidence.ceilings()
		if err != nil {
			return err
		}
		b.Ceilings = &c
	}
	return nil
}

func (t budgetTable) limits() (memproxy.Limits, error) {
	l := memproxy.DefaultLimits()
	var faults []error
	limit := func(name string, r memproxy.WriteLimit) {
		if r.PerHour < 0 || r.Total < 0 {
			faults = append(faults, fmt.Errorf("budgets.%s is negative", name))
		}
	}
	rows := func(name string, m map[string]memproxy.WriteLimit) map[string]memproxy.WriteLimit {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			limit(name+"."+k, m[k])
		}
		out := map[string]memproxy.WriteLimit{}
		maps.Copy(out, m)
		return out
	}
	limit("default", t.Default)
	limit("anonymous", t.Anonymous)
	l.Default, l.Anonymous = t.Default.Or(l.Default), t.Anonymous.Or(l.Anonymous)
	l.Overrides, l.Tenants, l.Namespaces = rows("overrides", t.Overrides), rows("tenants", t.Tenants), map[string]memproxy.WriteLimit{}
	for field, w := range rows("namespaces", t.Namespaces) {
		l.Namespaces[memproxy.Key(field)] = w
	}
	if t.Together != nil {
		if l.Together = *t.Together; l.Together < 1 {
			faults = append(faults, errors.New("budgets.together is less than 1"))
		}
	}
	if t.RapidPerMinute != nil {
		if l.RapidPerMinute = *t.RapidPerMinute; l.RapidPerMinute < 0 {
			faults = append(faults, errors.New("budgets.rapid_per_minute is negative"))
		}
	}
	return l, errors.Join(faults...)
}

func (t confidenceTable) ceilings() (memproxy.Ceilings, error) {
	c := memproxy.DefaultCeilings()
	var faults []error
	perMille := func(name string, f float64) memproxy.PerMille {
		if !(f >= 0 && f <= 1) { // also refuses NaN
			faults = append(faults, fmt.Errorf("confidence.%s is not from 0 to 1", name))
			return 0
		}
		return memproxy.FromFraction(f)
	}
	for _, tier := range slices.Sorted(maps.Keys(t.Principal)) {
		if _, known := c.Principal[tier]; !known {
			faults = append(faults, fmt.Errorf("confidence.principal has no tier %q", tier))
		}
		c.Principal[tier] = perMille("principal."+string(tier), t.Principal[tier])
	}
	for _, tier := range slices.Sorted(maps.Keys(t.Source)) {
		if _, known := c.Source[tier]; !known {
			faults = append(faults, fmt.Errorf("confidence.source has no tier %q", tier))
		}
		c.Source[tier] = perMille("source."+string(tier), t.Source[tier])
	}
	if t.Unclaimed != nil {
		c.Unclaimed = perMille("unclaimed", *t.Unclaimed)
	}
	return c, errors.Join(faults...)
}

// tablesOf returns a bundle's tables, with all values filled in.
func tablesOf(b Bundle) tables {
	var t tables
	if l := b.Limits; l != nil {
		t.Budgets = &budgetTable{l.Default, l.Anonymous, l.Overrides, l.Tenants, l.Namespaces, new(max(1, l.Together)), &l.RapidPerMinute}
	}
	if c := b.Ceilings; c != nil {
		unclaimed := c.Unclaimed.Fraction()
		t.Confidence = &confidenceTable{Principal: map[memproxy.Trust]float64{}, Source: map[memproxy.Source]float64{}, Unclaimed: &unclaimed}
		for tier, p := range c.Principal {
			t.Confidence.Principal[tier] = p.Fraction()
		}
		for tier, p := range c.Source {
			t.Confidence.Source[tier] = p.Fraction()
		}
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
		rise("together", max(1, a.Together), max(1, b.Together))
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
