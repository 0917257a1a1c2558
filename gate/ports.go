package gate

import (
	"context"
	"errors"
	"time"

	"github.com/memproxy/memproxy"
)

// A Keeper keeps held writes until somebody has decided on them.
type Keeper interface {
	// Keep returns when the write is durable.
	Keep(context.Context, memproxy.HeldWrite, memproxy.HoldContent) error

	// Kept returns what is known of a held write by its decision's id; false
	// when there is none.
	Kept(ctx context.Context, id string) (memproxy.HeldWrite, bool, error)
}

// An Identifier turns credentials into a principal. A credential that is
// presented and not accepted, or a missing one where none is allowed, is a
// *memproxy.Rejected; any other error is breakage and answered 503.
type Identifier interface {
	Identify(context.Context, memproxy.Credentials) (memproxy.Principal, error)
}

// A Screener finds what is dangerous in an operation's items. It never
// decides. Its error refuses a write and withholds an answer.
type Screener interface {
	Screen(context.Context, memproxy.Screening) ([]memproxy.Finding, error)

	// Wrote tells of a write that went through: later ones are judged by those
	// before them.
	Wrote(memproxy.Screening)
}

// A Policy rules on a question. "No" is a Ruling; an error denies.
type Policy interface {
	Rule(context.Context, memproxy.Question) (memproxy.Ruling, error)
}

// A Budget charges write budgets, all lines or none. A refusal is an
// Allowance that is not Granted. An error means that not even the local share
// could be counted; the gate then refuses.
type Budget interface {
	Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error)

	// Release gives back n memories on the charge's total lines, when they
	// were deleted, or all of a charge that the backend refused. It is
	// idempotent by ID.
	Release(context.Context, memproxy.Charge) error
}

// A Recorder writes events to the audit log. Record returns when the event is
// durable; Note queues it without waiting, in order, for facts that follow a
// durable one.
type Recorder interface {
	Record(context.Context, memproxy.Event) (memproxy.Receipt, error)
	Note(memproxy.Event) error
}

// A Signer signs and checks provenance stamps.
type Signer interface {
	// Sign returns the stamp with its Signature.
	Sign(memproxy.Stamp) memproxy.Stamp
	// Verify reports whether the stamp is this installation's and unchanged.
	Verify(memproxy.Stamp) bool
}

// A Ledger remembers whose memories are, how far they are believed, what they
// said before, and what their authors are worth. It has no optional parts: a
// decorator that forgets a method does not compile, and no control is off because
// a store lacks something. An error means that nothing is known: reads then trust
// least, and writes that need the answer are refused with 503 (docs/design.md).
type Ledger interface {
	// Lookup returns what is known of objects, by key: who owns each, the status
	// of it, and whether its sealed backend held it. Without a record an object is
	// absent; without a status it is untrusted. What this process wrote before, it
	// finds.
	Lookup(context.Context, ...memproxy.MemoryKey) (map[memproxy.MemoryKey]memproxy.Record, error)

	// Decision returns the ownership that was recorded for the write of a
	// decision, so that a memory that comes back with its stamp can be bound.
	Decision(ctx context.Context, backend, decision string) (memproxy.Ownership, bool, error)

	// Commit applies what one decision makes of what is known, whole or not at
	// all. This process finds it when Commit returns. It is ErrStale where other
	// processes on the same store replaced what the entry says that it has Seen.
	Commit(context.Context, memproxy.Entry) error

	// Bind inserts the rows of which there is none by (Backend, Kind, ID), in
	// one transaction, and returns for each the one that is there then. Of callers
	// that bind one id at once, all get the same.
	Bind(context.Context, ...memproxy.Ownership) ([]memproxy.Ownership, error)

	// DeleteScope leaves tombstones for the backend's memories within the scope,
	// of whatever tenant, and returns whose they were, also along with an error. An
	// empty field of the scope matches everything. Their histories end with a
	// version like v, if it has an operation.
	DeleteScope(ctx context.Context, backend string, scope memproxy.Scope, v memproxy.Version) ([]memproxy.Tally, error)

	// ListStatuses returns a page of statuses, in the order of their keys.
	ListStatuses(context.Context, memproxy.StatusFilter) ([]memproxy.Status, error)

	// History returns versions of a memory, the newest first.
	History(ctx context.Context, k memproxy.MemoryKey, before int64, limit int) ([]memproxy.Version, error)

	// SessionLocked returns the lock that is in force on one of the records, by
	// their ids, or the zero Lock.
	SessionLocked(ctx context.Context, tenant string, ids ...string) (memproxy.Lock, error)

	// NoteSession counts a rejection in records, by their ids, and returns those
	// that it locks.
	NoteSession(ctx context.Context, e memproxy.SessionEvent, ids ...string) (locked []memproxy.Session, err error)

	// Corrections returns who changed a memory that was another's, newest
	// first.
	Corrections(context.Context, memproxy.MemoryKey) ([]memproxy.Correction, error)

	// Record returns the track record of an author of a tenant; zeros for one
	// who is not known.
	Record(ctx context.Context, tenant, actor string) (memproxy.Track, error)

	// Retraction returns the newest retraction by an author, not before a time,
	// of a text like one of these; false when there is none.
	Retraction(ctx context.Context, tenant, author string, texts []string, since time.Time) (memproxy.Retraction, bool, error)
}

// NoLedger knows nothing and keeps nothing. It is what a request is explained
// with where no state is opened, and what fakes are built on.
type NoLedger struct{}

var _ Ledger = NoLedger{}

// Lookup knows of none.
func (NoLedger) Lookup(context.Context, ...memproxy.MemoryKey) (map[memproxy.MemoryKey]memproxy.Record, error) {
	return nil, nil
}

// Decision knows of none.
func (NoLedger) Decision(context.Context, string, string) (memproxy.Ownership, bool, error) {
	return memproxy.Ownership{}, false, nil
}

// Commit keeps nothing.
func (NoLedger) Commit(context.Context, memproxy.Entry) error { return nil }

// Bind lets everybody have what is not bound.
func (NoLedger) Bind(_ context.Context, rows ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return rows, nil
}

// DeleteScope finds nothing.
func (NoLedger) DeleteScope(context.Context, string, memproxy.Scope, memproxy.Version) ([]memproxy.Tally, error) {
	return nil, nil
}

// ListStatuses lists nothing.
func (NoLedger) ListStatuses(context.Context, memproxy.StatusFilter) ([]memproxy.Status, error) {
	return nil, nil
}

// History knows of none.
func (NoLedger) History(context.Context, memproxy.MemoryKey, int64, int) ([]memproxy.Version, error) {
	return nil, nil
}

// SessionLocked: none is.
func (NoLedger) SessionLocked(context.Context, string, ...string) (memproxy.Lock, error) {
	return memproxy.Lock{}, nil
}

// NoteSession locks nobody.
func (NoLedger) NoteSession(context.Context, memproxy.SessionEvent, ...string) ([]memproxy.Session, error) {
	return nil, nil
}

// Corrections knows of none.
func (NoLedger) Corrections(context.Context, memproxy.MemoryKey) ([]memproxy.Correction, error) {
	return nil, nil
}

// Record knows nobody.
func (NoLedger) Record(context.Context, string, string) (memproxy.Track, error) {
	return memproxy.Track{}, nil
}

// Retraction knows of none.
func (NoLedger) Retraction(context.Context, string, string, []string, time.Time) (memproxy.Retraction, bool, error) {
	return memproxy.Retraction{}, false, nil
}

// Metered counts the calls of a ledger that fail. What a failure means is for
// the step that asked. A Gate does it with its own.
func Metered(l Ledger, m Meter) Ledger { return metered{l, m} }

type metered struct {
	of    Ledger
	meter Meter
}

var _ Ledger = metered{}

func (m metered) note(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, memproxy.ErrStale) {
		m.meter.LedgerFailed(ctx)
	}
	return err
}

func (m metered) Lookup(ctx context.Context, keys ...memproxy.MemoryKey) (map[memproxy.MemoryKey]memproxy.Record, error) {
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

func (m metered) DeleteScope(ctx context.Context, backend string, scope memproxy.Scope, v memproxy.Version) ([]memproxy.Tally, error) {
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

func (m metered) Record(ctx context.Context, tenant, actor string) (memproxy.Track, error) {
	got, err := m.of.Record(ctx, tenant, actor)
	return got, m.note(ctx, err)
}

func (m metered) Retraction(ctx context.Context, tenant, author string, texts []string, since time.Time) (memproxy.Retraction, bool, error) {
	got, ok, err := m.of.Retraction(ctx, tenant, author, texts, since)
	return got, ok, m.note(ctx, err)
}
