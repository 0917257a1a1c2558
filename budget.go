package memproxy

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// Window is the period over which a budget line counts.
type Window string

// The windows.
const (
	WindowMinute Window = "minute" // aligned to the clock, for rapid_writes; it warns and never refuses
	WindowHour   Window = "hour"   // sliding window of the last sixty minutes
	WindowTotal  Window = "total"  // never resets; decreases when memories are deleted
)

// Line is one budget that a charge counts against.
type Line struct {
	// Key names the account: "principal/agent:dev", "tenant/acme",
	// "namespace/gotchas".
	Key string `json:"account"`
	// Reason is the reason given if this line refuses: budget.hour, budget.total,
	// budget.tenant, budget.namespace.
	Reason ReasonCode `json:"reason"`
	Window Window     `json:"window"`
	// Limit is in memories. A line with a negative limit is counted and never refuses.
	Limit int64 `json:"limit"`
	// Soft marks a line that never refuses.
	Soft bool `json:"soft,omitempty"`
}

// Charge requests Cost memories on every line. Either all lines are charged, or none.
type Charge struct {
	// ID is the idempotency key: charges with the same id count once. It is the decision
	// id.
	ID string
	// Tenant selects the shard of the store, so that all accounts of one charge are on
	// one shard.
	Tenant string
	Cost   int64
	Lines  []Line
	Time   time.Time
	// Written is set if the memories exist already, such as those that a write created
	// beyond its reservation. Such a charge is never refused, even if it takes a line
	// above its limit; the line then refuses the next charge.
	Written bool
	// Peek asks whether the charge would be granted, and charges and stores nothing.
	Peek bool
}

// LineState is the state of a line after a charge, in the order of the charge's lines.
type LineState struct {
	Line
	Used int64
	// Reset is when the window ends. For WindowHour it is when there is room again, or,
	// if there is room already, when the oldest write leaves the window. It is the zero
	// time for WindowTotal.
	Reset time.Time
	// Warn is set by the one charge that crosses 80 % of the limit (in a minute: the limit).
	Warn bool
}

// Remaining returns what is left of the line, never negative.
func (s LineState) Remaining() int64 { return max(0, s.Limit-s.Used) }

// Allowance is the answer to a charge. A refusal is data, not an error.
type Allowance struct {
	Granted bool
	// Refused is the index in Lines of the line that refused; of several, the one that
	// resets last. It is -1 if the charge was granted.
	Refused int
	Lines   []LineState
	// Degraded is set if the shared store was unreachable and a local share of the limits
	// was applied.
	Degraded bool
}

// WaitForDeletion is the Retry-After of a total budget. Such a budget never resets: there
// is room again only when memories are deleted or the limit is raised.
const WaitForDeletion = time.Hour

// RetryAfter returns after how many whole seconds, at least 1, a refused charge may
// succeed.
func (a *Allowance) RetryAfter(now time.Time) int {
	wait := WaitForDeletion
	if a.Refused >= 0 && a.Refused < len(a.Lines) && !a.Lines[a.Refused].Reset.IsZero() {
		wait = a.Lines[a.Refused].Reset.Sub(now)
	}
	return max(1, int((wait+time.Second-1)/time.Second))
}

// Limits are the write budgets of a bundle and a configuration.
type Limits struct {
	Default, Anonymous WriteLimit
	// Overrides are the limits by principal id. A zero field is inherited from Default.
	Overrides map[string]WriteLimit
	// Tenants are the limits by tenant; "*" applies to each tenant without an entry.
	// Without any entry a tenant is not limited.
	Tenants map[string]WriteLimit
	// Namespaces are the limits by governed field. A field without an entry is not
	// limited.
	Namespaces map[string]WriteLimit
	// PrincipalFactor is the factor by which a principal's limit is multiplied to limit its writes
	// for all end users in total. Zero counts as 1.
	PrincipalFactor int64
	// RapidPerMinute is the number of writes per minute that raises the rapid_writes
	// event; 0 disables it.
	RapidPerMinute int64
}

// Tenant returns the limits of a tenant: its own entry, or that of "*".
func (l *Limits) Tenant(name string) WriteLimit {
	if row, ok := l.Tenants[name]; ok {
		return row
	}
	return l.Tenants["*"]
}

// WriteLimit is one row of limits, in memories. Zero means not limited in Tenants and
// Namespaces, and inherited in Overrides.
type WriteLimit struct {
	PerHour int64 `json:"writes_per_hour,omitzero" yaml:"writes_per_hour,omitempty" doc:"memories per hour" min:"1" loose:"up0"`
	Total   int64 `json:"writes_total,omitzero" yaml:"writes_total,omitempty" doc:"memories in total, minus deleted ones" min:"1" loose:"up0"`
}

// Or returns the row with its zero fields replaced by those of other.
func (w WriteLimit) Or(other WriteLimit) WriteLimit {
	return WriteLimit{PerHour: cmp.Or(w.PerHour, other.PerHour), Total: cmp.Or(w.Total, other.Total)}
}

// DefaultLimits returns the limits that apply where the configuration sets none.
func DefaultLimits() Limits {
	return Limits{
		Default:         WriteLimit{PerHour: 100, Total: 10000},
		Anonymous:       WriteLimit{PerHour: 10, Total: 100},
		PrincipalFactor: 10,
		RapidPerMinute:  30,
	}
}

// BudgetTable is the write budgets as written in memproxy.yaml, in the bundle.yaml of a
// policy directory, and in a release. The struct tags are those of package config.
type BudgetTable struct {
	Default         WriteLimit            `json:"default,omitzero" yaml:"default,omitempty" doc:"limits of a principal on behalf of one end user, or of no named user" default:"100 an hour, 10000 in all"`
	Anonymous       WriteLimit            `json:"anonymous,omitzero" yaml:"anonymous,omitempty" doc:"limits of principals of the anonymous tier, whatever users they name; callers without a credential share the limit per address, whatever sessions they name, and all of them together have 'together' times as much" default:"10 an hour, 100 in all"`
	Overrides       map[string]WriteLimit `json:"overrides,omitempty" yaml:"overrides,omitempty" doc:"by principal id; absent values are inherited"`
	Tenants         map[string]WriteLimit `json:"tenants,omitempty" yaml:"tenants,omitempty" doc:"by tenant, \"*\" for each; absent: no limit"`
	Namespaces      map[string]WriteLimit `json:"namespaces,omitempty" yaml:"namespaces,omitempty" doc:"by governed field; absent: no limit"`
	PrincipalFactor *int64                `json:"together,omitzero" yaml:"together,omitempty" doc:"a principal's limit for all of its end users together, as a multiple of the limit for one" default:"10" min:"1" loose:"up"`
	RapidPerMinute  *int64                `json:"rapid_per_minute,omitzero" yaml:"rapid_per_minute,omitempty" doc:"writes a minute that raise the event rapid_writes; 0: off" default:"30" min:"0" loose:"up0;off:0"`
}

// Limits checks and converts the table. Absent values are those of the built-in bundle.
func (t BudgetTable) Limits() (Limits, error) {
	l := DefaultLimits()
	var faults []error
	fault := func(wrong bool, what string) {
		if wrong {
			faults = append(faults, errors.New("budgets."+what))
		}
	}
	row := func(name string, r WriteLimit) { fault(r.PerHour < 0 || r.Total < 0, name+" is negative") }
	rows := func(name string, m map[string]WriteLimit, fold func(string) string) map[string]WriteLimit {
		out := map[string]WriteLimit{}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			row(name+"."+k, m[k])
			_, twice := out[fold(k)]
			fault(twice, name+"."+fold(k)+" is listed twice")
			out[fold(k)] = m[k]
		}
		return out
	}
	exact := func(key string) string { return key }
	row("default", t.Default)
	row("anonymous", t.Anonymous)
	l.Default, l.Anonymous = t.Default.Or(l.Default), t.Anonymous.Or(l.Anonymous)
	l.Overrides, l.Tenants, l.Namespaces = rows("overrides", t.Overrides, exact), rows("tenants", t.Tenants, exact), rows("namespaces", t.Namespaces, Key)
	if t.PrincipalFactor != nil {
		l.PrincipalFactor = *t.PrincipalFactor
	}
	if t.RapidPerMinute != nil {
		l.RapidPerMinute = *t.RapidPerMinute
	}
	fault(l.PrincipalFactor < 1, "together is less than 1")
	fault(l.RapidPerMinute < 0, "rapid_per_minute is negative")
	return l, errors.Join(faults...)
}

// Table returns the limits as a table, with all values filled in.
func (l Limits) Table() *BudgetTable {
	return &BudgetTable{l.Default, l.Anonymous, l.Overrides, l.Tenants, l.Namespaces, new(max(1, l.PrincipalFactor)), &l.RapidPerMinute}
}
