package query

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// Filter selects records. Zero fields match everything. Names match as callers wrote
// them or as they are recorded.
type Filter struct {
	Principal     string    // principal id
	Agent         string    // principal id, or the agent named in the payload
	User          string    // the end user named in the payload
	Tenant        string    // the principal's or the scope's tenant
	Session       string    // the session's name
	Backend       string    // the backend's name
	Memory        string    // id of a memory that was named, written, shown or changed
	Field         string    // a governed field that was written
	Source        string    // the tier of the content's source
	Action        string    // the operation's kind: learn, correct, …
	Verdict       string    // allow, amend, hold, deny
	ShadowVerdict string    // the verdict under full enforcement, if different
	Type          string    // the event's type: decision, outcome, …
	Decision      string    // decision id
	Reason        string    // a reason's code
	Stage         string    // the stage of a review action
	Since         time.Time // appended at or after
	Until         time.Time // appended before
	// Last selects only the last n records, at most MaxLast.
	Last int
}

// MaxLast bounds the records that a query keeps in memory.
const MaxLast = 10000

// Check refuses values that no record can have, so that a misspelled query does not
// look like one without results.
func (f *Filter) Check() error {
	for _, c := range []struct {
		name, value string
		list        any
	}{
		{"action", f.Action, memproxy.Kinds[:]},
		{"verdict", f.Verdict, []string{"allow", "amend", "hold", "deny"}},
		{"shadow-verdict", f.ShadowVerdict, []string{"allow", "amend", "hold", "deny"}},
		{"type", f.Type, memproxy.EventTypes()},
		{"reason", f.Reason, memproxy.ReasonCodes()},
		{"source", f.Source, append(memproxy.SourceTiers[:], memproxy.SourceUnstated)},
		{"stage", f.Stage, []memproxy.ActStage{memproxy.ActAttempted, memproxy.ActDone, memproxy.ActRefused, memproxy.ActFailed, memproxy.ActUnknown}},
	} {
		words := strings.Fields(strings.Trim(fmt.Sprint(c.list), "[]"))
		if c.value != "" && !slices.Contains(words, c.value) {
			return fmt.Errorf("%s %q is not one of %s", c.name, c.value, strings.Join(words, ", "))
		}
	}
	return nil
}

// Match reports whether the filter selects a record.
func (f *Filter) Match(r *verify.Record) bool {
	p, op := cmp.Or(r.Principal, &verify.Principal{}), cmp.Or(r.Operation, &verify.Operation{})
	is := func(want, got string) bool { return want == "" || want == got || memproxy.Inert(want) == got }
	switch {
	case !is(f.Type, r.Type), !is(f.Verdict, r.Verdict), !is(f.ShadowVerdict, r.ShadowVerdict), !is(f.Decision, r.Decision),
		!is(f.Principal, p.ID), !is(f.Tenant, p.Tenant) && !is(f.Tenant, op.Scope.Tenant), !is(f.Agent, p.ID) && !is(f.Agent, op.Scope.Agent),
		!is(f.Action, op.Kind), !is(f.Backend, op.Backend), !is(f.User, op.Scope.User),
		f.Session != "" && memproxy.InertSession(f.Session) != r.Session,
		f.Field != "" && !f.matchesField(r, op), f.Memory != "" && !f.matchesMemory(r, op),
		f.Source != "" && (r.Facts == nil || string(r.Facts.Source) != f.Source),
		f.Stage != "" && (r.Review == nil || string(r.Review.Stage) != f.Stage),
		f.Reason != "" && !slices.ContainsFunc(r.Reasons, func(x memproxy.Reason) bool { return string(x.Code) == f.Reason }):
		return false
	}
	if f.Since.IsZero() && f.Until.IsZero() {
		return true
	}
	at, err := r.At()
	return err == nil && !at.Before(f.Since) && (f.Until.IsZero() || at.Before(f.Until))
}

func (f *Filter) matchesField(r *verify.Record, op *verify.Operation) bool {
	name, key := memproxy.Inert(f.Field), memproxy.Inert(memproxy.Key(f.Field))
	return slices.Contains(op.Fields, key) || slices.Contains(op.Fields, name) || slices.ContainsFunc(r.Versions, func(v memproxy.VersionChange) bool { return v.Field == key || v.Field == name })
}

func (f *Filter) matchesMemory(r *verify.Record, op *verify.Operation) bool {
	id := memproxy.InertID(f.Memory)
	return slices.Contains(op.Targets, id) || r.Outcome != nil && slices.Contains(r.Outcome.Memories, id) ||
		slices.ContainsFunc(r.Versions, func(v memproxy.VersionChange) bool { return v.Memory == id })
}

// hints returns byte strings that every selected record contains, so that most other
// records need not be decoded.
func (f *Filter) hints() (out [][]byte) {
	for _, s := range []string{
		memproxy.InertSession(f.Session), memproxy.Inert(f.User), memproxy.InertID(f.Memory),
		f.Backend, f.Source, f.Action, f.Verdict, f.ShadowVerdict, f.Type, f.Decision, f.Reason, f.Stage,
	} {
		if q := strconv.Quote(s); s != "" && q == `"`+s+`"` { // contains no escaped character
			out = append(out, []byte(q))
		}
	}
	return out
}
