package memproxy

import (
	"cmp"
	"time"
)

// Window is how long a budget line counts.
type Window string

// The windows.
const (
	WindowMinute Window = "minute" // aligned to the clock, for rapid_writes: warns, never refuses
	WindowHour   Window = "hour"   // the sixty minutes before, whenever they are asked about
	WindowTotal  Window = "total"  // for ever; falls when memories are deleted
)

// Line is one budget that a charge draws on.
type Line struct {
	// Reason is the reason given when this line refuses: budget.hour,
	// budget.total, budget.tenant, budget.namespace.
	Reason ReasonCode
	// Key names the account: "principal/agent:dev", "tenant/acme",
	// "namespace/gotchas".
	Key    string
	Window Window
	// Limit is in memories. A line with Limit < 0 is only counted.
	Limit int64
	// Soft lines never refuse; passing the limit raises an event.
	Soft bool
}

// Charge requests Cost memories on every line, all or nothing.
type Charge struct {
	// ID makes the charge idempotent: the same id charges once. It is the
	// decision id.
	ID string
	// Tenant keeps the accounts of one charge on one shard of the store.
	Tenant string
	Cost   int64
	Lines  []Line
	Time   time.Time
	// Written is set if the memories exist already, such as those that a write made
	// beyond its reservation: the charge is never refused, and may take a line
	// above its limit, which refuses the next one.
	Written bool
	// Peek asks whether the charge would be granted. It draws nothing and is not
	// stored.
	Peek bool
}

// LineState is a line after a charge, in the order of the charge's lines.
type LineState struct {
	Line
	Used int64
	// Reset is when the window ends, of an hour when there is room again (where
	// there is some, when the oldest write leaves it); the zero time for
	// WindowTotal.
	Reset time.Time
	// Warn is set by the charge that crosses 80 % of the limit (or a soft
	// line's limit), and only by that one.
	Warn bool
}

// Remaining is the rest of the line, never negative.
func (s LineState) Remaining() int64 { return max(0, s.Limit-s.Used) }

// Allowance is the answer to a charge. A refusal is data.
type Allowance struct {
	Granted bool
	// Refused is the index into Lines of the line that refused, the one with
	// the latest reset; -1 when granted.
	Refused int
	Lines   []LineState
	// Degraded is set when the shared store could not be reached and a local
	// share of the limits was applied.
	Degraded bool
}

// WaitForDeletion is the Retry-After of a total budget: it has no reset, and
// frees only when memories are deleted or the limit is raised.
const WaitForDeletion = time.Hour

// RetryAfter is the whole seconds, at least 1, after which a refused charge
// may succeed.
func (a *Allowance) RetryAfter(now time.Time) int {
	wait := WaitForDeletion
	if a.Refused >= 0 && a.Refused < len(a.Lines) && !a.Lines[a.Refused].Reset.IsZero() {
		wait = a.Lines[a.Refused].Reset.Sub(now)
	}
	return max(1, int((wait+time.Second-1)/time.Second))
}

// Limits is the budget table of a bundle and a configuration.
type Limits struct {
	Default, Anonymous WriteLimit
	// Overrides are by principal id. A zero field inherits.
	Overrides map[string]WriteLimit
	// Tenants are by tenant; "*" is every tenant. No entry: not limited.
	Tenants map[string]WriteLimit
	// Namespaces are by field; no entry: not limited.
	Namespaces map[string]WriteLimit
	// Together is how many times its limit a principal may write for all of its
	// end users together. Zero is once.
	Together int64
	// RapidPerMinute raises the rapid_writes event. Zero: off.
	RapidPerMinute int64
}

// Tenant is the row of a tenant: its own, or that of every tenant without one.
func (l *Limits) Tenant(name string) WriteLimit {
	if row, ok := l.Tenants[name]; ok {
		return row
	}
	return l.Tenants["*"]
}

// WriteLimit is one row of the table, in memories. Zero means not limited in
// Tenants and Namespaces, and inherited in Overrides.
type WriteLimit struct {
	PerHour int64 `json:"writes_per_hour,omitzero" yaml:"writes_per_hour"`
	Total   int64 `json:"writes_total,omitzero" yaml:"writes_total"`
}

// Or replaces the row's zeros by the values of another.
func (w WriteLimit) Or(other WriteLimit) WriteLimit {
	return WriteLimit{PerHour: cmp.Or(w.PerHour, other.PerHour), Total: cmp.Or(w.Total, other.Total)}
}

// DefaultLimits are the limits of the built-in bundle.
func DefaultLimits() Limits {
	return Limits{
		Default:        WriteLimit{PerHour: 100, Total: 10000},
		Anonymous:      WriteLimit{PerHour: 10, Total: 100},
		Together:       10,
		RapidPerMinute: 30,
	}
}
