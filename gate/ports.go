package gate

import (
	"context"
	"errors"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// A HoldStore stores held writes until a reviewer has decided on them.
type HoldStore interface {
	// Put returns when the write is durable.
	Put(context.Context, memproxy.HeldWrite, memproxy.HoldContent) error

	// Get returns a held write by its decision's id, and false if there is none.
	Get(ctx context.Context, id string) (memproxy.HeldWrite, bool, error)
}

// An Identifier turns credentials into a principal. It returns a
// *memproxy.CredentialError for a credential that is not accepted, or a missing one where
// one is required. Any other error is breakage and answered with 503.
type Identifier interface {
	Identify(context.Context, memproxy.Credentials) (memproxy.Principal, error)
}

// A Screener finds dangerous content in an operation's items. It never decides. An
// error refuses a write and withholds an answer.
type Screener interface {
	Screen(context.Context, memproxy.Screening) ([]memproxy.Finding, error)

	// RecordWrite reports a write that succeeded: later writes are judged together with
	// earlier ones.
	RecordWrite(memproxy.Screening)
}

// A Policy rules on a question. A refusal is a Ruling; an error denies.
type Policy interface {
	Rule(context.Context, memproxy.Question) (memproxy.Ruling, error)
}

// A Budget charges write budgets, all lines or none. A refusal is an Allowance that
// is not Granted. An error means that not even the local share could be counted;
// the gate then refuses.
type Budget interface {
	Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error)

	// Release credits the charge's cost to its lines: after a deletion, or after the
	// backend refused the write. It is idempotent by the charge's ID.
	Release(context.Context, memproxy.Charge) error
}

// A Recorder writes events to the audit log. Record returns when the event is
// durable. RecordAsync queues an event without waiting, in order; it is for facts that
// follow a durable event.
type Recorder interface {
	Record(context.Context, memproxy.Event) error
	RecordAsync(memproxy.Event) error
}

// A Signer signs and checks provenance stamps.
type Signer interface {
	// Sign returns the stamp with its Signature.
	Sign(memproxy.Stamp) memproxy.Stamp
	// Verify reports whether the stamp is this installation's and unchanged.
	Verify(memproxy.Stamp) bool
}

// A Ledger records who owns memories, how far they are trusted, their previous
// versions, and the track records of their authors. It has no optional parts: a
// decorator that lacks a method does not compile, and no control depends on what a
// store supports. After an error nothing is known: reads fall back to the lowest trust,
// and writes that need the answer are refused with 503 (docs/design.md).
type Ledger interface {
	// Lookup returns the records of objects, by key: who owns each, its status, and
	// whether its sealed backend held it. An object without a record is absent from the
	// map; one without a status is untrusted. A process reads its own writes.
	Lookup(context.Context, ...memproxy.MemoryKey) (memproxy.Records, error)

	// Decision returns the ownership that was recorded for the write of a
	// decision, and false if there is none. A memory that comes back with the stamp of
	// that write is bound by it.
	Decision(ctx context.Context, backend, decision string) (memproxy.Ownership, bool, error)

	// Commit applies the changes of one decision: atomically for each object, and for
	// the whole entry if it is of at most 128 objects. This process reads them as soon
	// as Commit returns. Commit returns ErrStale if other processes on the same store
	// replaced one of the entry's ExpectedOwners, and ErrKept if it keeps a Queued entry
	// in memory only.
	Commit(context.Context, memproxy.Entry) error

	// Bind inserts the rows whose (Backend, Kind, ID) has no row yet, in one
	// transaction, and returns the stored row for each. Callers that bind one id
	// concurrently all get the same row. A name that is bound again by its tenant, with
	// another Decision, loses its Decision: it can no longer be released. To release one,
	// Commit an entry that expects the row and replaces it by a deleted one.
	Bind(context.Context, ...memproxy.Ownership) ([]memproxy.Ownership, error)

	// DeleteScope records tombstones for the backend's memories within the scope, of
	// any tenant, and cancels the held writes within it; only the latter if v is nil.
	// It returns both, also along with an error. An empty field of the scope matches
	// everything. If v has an operation, the history of each memory ends with a version like v.
	DeleteScope(ctx context.Context, backend string, scope memproxy.Scope, v *memproxy.Version) (memproxy.ScopeDeletion, error)

	// ListStatuses returns a page of statuses, in the order of their keys.
	ListStatuses(context.Context, memproxy.StatusFilter) ([]memproxy.Status, error)

	// History returns versions of a memory, the newest first.
	History(ctx context.Context, k memproxy.MemoryKey, before int64, limit int) ([]memproxy.Version, error)

	// SessionLocked returns a lock in force on one of the records, by their ids, or
	// the zero Lock.
	SessionLocked(ctx context.Context, tenant string, ids ...string) (memproxy.Lock, error)

	// NoteSession counts a rejection in the records with these ids, and returns those
	// that it thereby locks.
	NoteSession(ctx context.Context, e memproxy.SessionEvent, ids ...string) (locked []memproxy.Session, err error)

	// Corrections returns the changes of a memory by others than its author, the
	// newest first.
	Corrections(context.Context, memproxy.MemoryKey) ([]memproxy.Correction, error)

	// Track returns the track record of an author of a tenant; zeros for an
	// unknown one.
	Track(ctx context.Context, tenant, actor string) (memproxy.Track, error)

	// Retraction returns the author's newest retraction since a time of a text like
	// one of these, and false if there is none.
	Retraction(ctx context.Context, tenant, author string, texts []string, since time.Time) (memproxy.Retraction, bool, error)
}

// metered is a decorator that counts the failed calls of a ledger. The step that made
// the call decides what a failure means.
type metered struct {
	of    Ledger
	meter Meter
}

func (m metered) note(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, memproxy.ErrStale) {
		m.meter.LedgerFailed(ctx)
	}
	return err
}

func (m metered) Lookup(ctx context.Context, keys ...memproxy.MemoryKey) (memproxy.Records, error) {
	got, err := m.of.Lookup(ctx, keys...)
	return got, m.note(ctx, err)
}

func (m metered) Decision(ctx context.Context, backend, decision string) (memproxy.Ownership, bool, error) {
	got, ok, err := m.of.Decision(ctx, backend, decision)
	return got, ok, m.note(ctx, err)
}

func (m metered) Commit(ctx context.Context, c memproxy.Entry) error {
	return m.note(ctx, m.of.Commit(ctx, c))
}

func (m metered) Bind(ctx context.Context, all ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	got, err := m.of.Bind(ctx, all...)
	return got, m.note(ctx, err)
}

func (m metered) DeleteScope(ctx context.Context, backend string, scope memproxy.Scope, v *memproxy.Version) (memproxy.ScopeDeletion, error) {
	got, err := m.of.DeleteScope(ctx, backend, scope, v)
	return got, m.note(ctx, err)
}

func (m metered) ListStatuses(ctx context.Context, v memproxy.StatusFilter) ([]memproxy.Status, error) {
	got, err := m.of.ListStatuses(ctx, v)
	return got, m.note(ctx, err)
}

func (m metered) History(ctx context.Context, k memproxy.MemoryKey, before int64, limit int) ([]memproxy.Version, error) {
	got, err := m.of.History(ctx, k, before, limit)
	return got, m.note(ctx, err)
}

func (m metered) SessionLocked(ctx context.Context, tenant string, ids ...string) (memproxy.Lock, error) {
	got, err := m.of.SessionLocked(ctx, tenant, ids...)
	return got, m.note(ctx, err)
}

func (m metered) NoteSession(ctx context.Context, v memproxy.SessionEvent, ids ...string) ([]memproxy.Session, error) {
	got, err := m.of.NoteSession(ctx, v, ids...)
	return got, m.note(ctx, err)
}

func (m metered) Corrections(ctx context.Context, v memproxy.MemoryKey) ([]memproxy.Correction, error) {
	got, err := m.of.Corrections(ctx, v)
	return got, m.note(ctx, err)
}

func (m metered) Track(ctx context.Context, tenant, actor string) (memproxy.Track, error) {
	got, err := m.of.Track(ctx, tenant, actor)
	return got, m.note(ctx, err)
}

func (m metered) Retraction(ctx context.Context, tenant, author string, texts []string, since time.Time) (memproxy.Retraction, bool, error) {
	got, ok, err := m.of.Retraction(ctx, tenant, author, texts, since)
	return got, ok, m.note(ctx, err)
}

// Profile names a set of defaults.
type Profile string

// The profiles.
const (
	Development Profile = "development"
	Production  Profile = "production"
)

// Rules is the configuration that can be replaced while the gate runs. It is
// immutable, and each request pins the pointer that it started with, so that no
// request is ruled on by two versions.
type Rules struct {
	// Version identifies the rules in decisions and audit records.
	Version  string
	Profile  Profile
	Policy   Policy
	Screener Screener // nil: screening is off
	// Approved is the allow list of texts that may instruct an agent, by SHA-256 in hex.
	Approved map[string]bool
	// Withhold is the lowest risk at which a memory is removed from answers, and a
	// memory that a backend's model extracted is retracted. Zero disables this.
	Withhold memproxy.PerMille
	// Sanitise is the lowest risk at which the dangerous spans of a text that was
	// written out-of-band are redacted in answers. Zero disables this. Flagged memories
	// are always sanitised.
	Sanitise memproxy.PerMille
	// WithholdUntrusted removes memories that are untrusted, or unknown, until they
	// are validated.
	WithholdUntrusted bool
	// NeverRefuse admits new memories that look dangerous and lets their status
	// decide how they are shown, if every read can be filtered by it.
	NeverRefuse bool
	// Rewrite is how far a text that looks dangerous is rewritten instead of being
	// refused. Empty is memproxy.RewriteOff.
	Rewrite memproxy.Rewriting
	// Changed is how memories that were changed out-of-band are treated. Empty is
	// ChangedReport.
	Changed Changed
	// Pending selects the new memories that only their author reads until a review; if
	// it is nil, none are. A caller whose track record cannot be looked up counts as
	// new. TTL is how long memories are kept; if it is nil, they never expire.
	Pending  NeedsReview
	TTL      Lifetime
	Ceilings memproxy.Ceilings
	// Promotion is the track record that makes an authenticated caller an established
	// one. The zero value disables this.
	Promotion memproxy.PromotionRule
	// Governance says how layers and keys are governed.
	Governance memproxy.Governance
	// Lines returns the budget lines that a principal's write to fields draws on. User
	// is the end user on whose behalf it is made, or "".
	Lines func(who memproxy.Principal, kind memproxy.Kind, user string, fields []string) []memproxy.Line
	// Enforce is false in shadow mode: everything is ruled on and recorded, and
	// forwarded unchanged.
	Enforce      bool
	Unattributed access.Unattributed
	// OneTenant is set if all callers belong to one tenant. Everything in a backend
	// then belongs to it, except what the ledger records for another tenant.
	OneTenant bool
	// Unclaimed is how members of answers without a claim are treated. Empty is
	// UnclaimedDrop.
	Unclaimed Unclaimed
	// Headers is how headers of answers without a claim are treated. Empty is
	// UnclaimedDrop.
	Headers Unclaimed
}

// Unclaimed is how members of answers without a claim are treated.
type Unclaimed string

// The settings for unclaimed members.
const (
	// UnclaimedDrop removes them. It is the default.
	UnclaimedDrop Unclaimed = "drop"
	// UnclaimedPass passes them on; they are still counted and reported.
	UnclaimedPass Unclaimed = "pass"
)

// Changed is how memories that were changed out-of-band are treated in answers.
type Changed string

// The settings.
const (
	// ChangedReport names them in the record of the read and in a header of the answer.
	ChangedReport Changed = "report"
	// ChangedWithhold also removes them from the answer.
	ChangedWithhold Changed = "withhold"
	// ChangedIgnore disables the check.
	ChangedIgnore Changed = "ignore"
)

// NeedsReview reports whether the memories of a principal's write wait for review: by the
// principal's tier and track record, and by the claimed source of the content.
type NeedsReview func(memproxy.Principal, memproxy.Source, memproxy.Track, time.Time) bool

// Lifetime returns how long a memory is kept, by its field, layer and claimed source.
// Zero means without limit.
type Lifetime func(field string, layer memproxy.Layer, source memproxy.Source) time.Duration
