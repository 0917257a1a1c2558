package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// readFindings parses the stored findings of a status.
func readFindings(st *memproxy.Status, kept string) error {
	// Nearly all statuses have no findings, and parsing JSON costs as much as reading the
	// row.
	text, _ := strings.CutPrefix(kept, `{"text":"`)
	if text, plain := strings.CutSuffix(text, `","findings":null}`); plain && !strings.ContainsAny(text, `"\`) {
		st.Text = text
		return nil
	}
	var with spans
	err := json.Unmarshal([]byte(kept), &with)
	st.Findings, st.Text = with.Findings, with.Text
	return err
}

// spans is the stored form of a status's findings, with the hash of the text they are
// about.
type spans struct {
	Text     string             `json:"text"`
	Findings []memproxy.Finding `json:"findings"`
}

func findingsOf(st *memproxy.Status) string {
	if st.State == "" {
		return ""
	}
	return asJSON(spans{st.Text, st.Findings})
}

// ListStatuses returns a page of statuses, ordered by key.
func (l *Ledger) ListStatuses(ctx context.Context, f memproxy.StatusFilter) ([]memproxy.Status, error) {
	query, args, err := statusQuery(&f, l.opt.Clock())
	if err != nil {
		return nil, err
	}
	part := statusOf
	if f.Deleted != nil {
		part = func(r *recordRow) memproxy.Status { return memproxy.Status{MemoryKey: r.key} }
	}
	return querySettled(ctx, l.store, "list statuses", scanPart(l.store, part), query, args...)
}

// viaUnverified, viaExpires and viaDeleted make SQLite use a small index. Without statistics it
// would choose the primary key; Postgres has statistics.
const (
	viaUnverified = " INDEXED BY record_unverified"
	viaExpires    = " INDEXED BY record_expires"
	viaDeleted    = " INDEXED BY record_deleted"
)

// overdue is memproxy.Status.Overdue as an SQL condition.
const overdue = `expires > 0 AND expires <= ? AND pinned = 0 AND state NOT IN ('expired', 'quarantined')`

func statusQuery(f *memproxy.StatusFilter, now time.Time) (query string, args []any, err error) {
	c := conditions{}
	c.add("(backend, kind, id) > (?, ?, ?)", f.After)
	c.text("state", "state = ?", string(f.State))
	c.text("backend", "backend = ?", f.Backend)
	c.text("the version of the rules", "rules <> ?", f.NotRules)
	from := "record"
	if f.Deleted != nil {
		from += viaDeleted
		c.add("kind = 'memory' AND deleted > 0 AND deleted >= ?", toMicros(*f.Deleted))
		c.tenant("tenant", f.Tenant)
		for _, d := range memproxy.Dimensions {
			c.text("the "+string(d), `"`+string(d)+`" = ?`, f.Within.In(d))
		}
	} else {
		c.add("state <> ''")
		c.tenant("status_tenant", f.Tenant)
	}
	if f.Unverified {
		from += viaUnverified
		c.add("unverified <> ''")
	}
	if f.Overdue {
		from += viaExpires
		c.add(overdue, toMicros(now))
	}
	if !f.QuietSince.IsZero() {
		c.add(`changed < ? AND contested = 0 AND NOT EXISTS (SELECT 1 FROM version v
			WHERE v.backend = record.backend AND v.id = record.id AND v.kind = record.kind AND v.at >= ?)`, toMicros(f.QuietSince), toMicros(f.QuietSince))
	}
	n := min(cmp.Or(max(0, f.Limit), 10), 1000)
	return `SELECT ` + recordColumns + ` FROM ` + from + c.where() + ` ORDER BY backend, kind, id LIMIT ?`, append(c.args, n), c.bad
}

// conditions are the conditions of a list, with their arguments.
type conditions struct {
	all  []string
	args []any
	bad  error // set if a part of the filter cannot be stored
}

func (c *conditions) where() string {
	if len(c.all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.all, " AND ")
}

func (c *conditions) add(condition string, args ...any) {
	c.all, c.args = append(c.all, condition), append(c.args, columns(args)...)
}

// text adds a condition on a part of a filter, unless value is empty.
func (c *conditions) text(part, condition, value string, also ...any) {
	if err := storable(value); err != nil {
		c.bad = cmp.Or(c.bad, invalidArgument("%s %v", part, err))
	} else if value != "" {
		c.add(condition, append([]any{value}, also...)...)
	}
}

// tenant adds a condition on the tenant, which may be "", unless tenant is nil.
func (c *conditions) tenant(column string, tenant *string) {
	if tenant == nil {
		return
	}
	if err := storable(*tenant); err != nil {
		c.bad = cmp.Or(c.bad, invalidArgument("tenant %v", err))
	}
	c.add(column+" = ?", *tenant)
}

// SetState changes the states of memories in one transaction and returns how many it
// changed. A memory whose state is not in a change's From, or has changed since Seen,
// is not changed. A memory without a record counts as untrusted.
func (l *Ledger) SetState(ctx context.Context, changes ...memproxy.StateChange) (int, error) {
	return countEach(ctx, l.store, changes, validChange, (*transaction).setState)
}

func validKey(k memproxy.MemoryKey) error {
	return cmp.Or(require(k.Backend != "" && k.Kind != "" && k.ID != "", "backend, kind and id are required"),
		storableParts("key", k.Backend, string(k.Kind), k.ID))
}

func validChange(c *memproxy.StateChange) error {
	return cmp.Or(validKey(c.MemoryKey), require(slices.Contains(memproxy.MemoryStates[:], c.State), "unknown state %.20q", c.State), storableParts("change", c.Tenant, c.Reason, c.Decision, c.Rules, c.Text, string(c.Attestation)))
}

// status returns a memory's record and its status. A memory without a status is untrusted.
func (t *transaction) status(k memproxy.MemoryKey) (r *recordRow, st memproxy.Status) {
	r = t.record(k)
	st = r.Status
	if !r.HasStatus() {
		st = memproxy.Status{MemoryKey: k, State: memproxy.StateUntrusted}
	}
	return r, st
}

func (t *transaction) putStatus(r *recordRow, st memproxy.Status, prior memproxy.MemoryState) {
	if r.edited {
		return
	}
	if st.Changed.IsZero() {
		st.Changed = fromMicros(t.now())
	}
	if r.HasOwner() {
		st.Tenant = r.Owner.Scope.Tenant
	}
	st.Changed, st.Expires, st.Findings = fromMicros(toMicros(st.Changed)), fromMicros(toMicros(st.Expires)), slices.Clone(st.Findings)
	r.Status, r.prior, r.dirty = st, prior, true
}

func count(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// setState changes a state and reports whether it did. A person's decision about a text
// stays in force until the text changes: then only what the rules would decide is
// recorded, and a notice queued.
func (t *transaction) setState(c *memproxy.StateChange) bool {
	r, st := t.status(c.MemoryKey)
	if r.edited || len(c.From) > 0 && !slices.Contains(c.From, st.State) || !c.Seen.IsZero() && !c.Seen.Equal(st.Changed) {
		return false
	}
	if c.Tenant != "" {
		st.Tenant = c.Tenant
	}
	if !c.Expires.IsZero() {
		st.Expires = c.Expires
	}
	if c.Person || st.Reviewed != "" {
		text := textOf(t, r, c)
		if !c.Person && (text == memproxy.AnyText || st.Reviewed == memproxy.AnyText && c.Text == "" || text == st.Reviewed) {
			keepDecided(t, c, r, st)
			return false
		}
		st.Reviewed = ""
		if c.Person {
			st.Reviewed = text
		}
	}
	if c.Attestation != "" {
		st.Attestation = c.Attestation
	}
	was := st.State
	st.State, st.Reason, st.Decision, st.Rules, st.Findings, st.Text = c.State, c.Reason, c.Decision, c.Rules, c.Findings, c.Text
	st.CurrentRules = ""
	st.Changed = fromMicros(t.now())
	t.putStatus(r, st, "")
	st = r.Status
	if was == st.State || st.Kind == memproxy.TargetDecision {
		return true
	}
	countAccepted(t, r, was, st.State, c.Person)
	countValidated(t, r, st.State)
	switch st.State {
	case memproxy.StateFlagged:
		t.notify(memproxy.NoticeFlagged, st.Tenant, st.ID, st)
	case memproxy.StateQuarantined:
		t.notify(memproxy.NoticeQuarantined, st.Tenant, st.ID, st)
	}
	return true
}

// keepDecided keeps a state that a person decided, and records what the rules would
// decide.
func keepDecided(t *transaction, c *memproxy.StateChange, r *recordRow, st memproxy.Status) {
	prior, was := r.prior, st.CurrentRules
	if c.Rules != "" {
		st.Rules, st.CurrentRules = c.Rules, ""
	}
	if c.State == memproxy.StateFlagged || c.State == memproxy.StateQuarantined {
		st.CurrentRules = c.State
	}
	if st.State == memproxy.StateExpired && !st.Expires.IsZero() && st.Expires.After(t.store.opt.Clock()) { // the same text was written again
		st.State, prior = prior, ""
	}
	if t.putStatus(r, st, prior); st.CurrentRules != "" && st.CurrentRules != was {
		t.notify(memproxy.NoticeMemoryRuled, st.Tenant, st.ID, st)
	}
}

// textOf returns the hash of the text that a change is about.
func textOf(t *transaction, r *recordRow, c *memproxy.StateChange) string {
	if c.Text != "" {
		return c.Text
	}
	last, _ := t.lastVersion(c.MemoryKey)
	return cmp.Or(last.SHA256, r.Owner.SHA256, memproxy.AnyText)
}

const refMemory = "memory/"

// Promote adds a reviewer's approval to a memory that is pending, untrusted, flagged or
// quarantined. Once Need distinct reviewers other than its author have approved its
// text, the memory is validated and attested as human-confirmed. ErrState means that
// the memory is in another state, ErrOwnReview that the reviewer is the author or wrote the
// text.
func (l *Ledger) Promote(ctx context.Context, k memproxy.MemoryKey, by memproxy.Review) (memproxy.VoteResult, error) {
	return changeResult(ctx, l.store, cmp.Or(validKey(k), checkReview(by)), func(t *transaction) memproxy.VoteResult {
		r, st := t.status(k)
		reviewable := []memproxy.MemoryState{
			memproxy.StatePending, memproxy.StateUntrusted, memproxy.StateFlagged, memproxy.StateQuarantined,
		}
		switch {
		case r.edited:
			t.fail(fmt.Errorf("%w: %s", ErrState, editedRow))
			return memproxy.VoteResult{}
		case r.Owner.Deleted:
			t.fail(fmt.Errorf("%w: the memory is deleted", ErrState))
			return memproxy.VoteResult{}
		case !slices.Contains(reviewable, st.State):
			t.fail(fmt.Errorf("%w: the memory is %s", ErrState, st.State))
			return memproxy.VoteResult{}
		}
		text := textOf(t, r, &memproxy.StateChange{MemoryKey: k})
		refuseOwnText(t, k, text, by)
		of := r.Owner.Scope
		if last, _ := t.lastVersion(k); !r.HasOwner() {
			of.Tenant = last.Tenant
		}
		tally := t.vote(votesOn(k, text), of.Tenant, r.Owner.Actor, by)
		if !tally.Settled {
			return tally
		}
		t.dropVotes(k)
		t.setState(&memproxy.StateChange{
			MemoryKey: k, State: memproxy.StateValidated, Reason: "promoted by " + clean(by.Reviewer), Decision: st.Decision,
			Rules: st.Rules, Attestation: memproxy.HumanConfirmed, Person: true,
		})
		return tally
	})
}
