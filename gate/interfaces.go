package gate

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
)

// An Adapter translates one backend's wire format. It never decides.
//
// Implementations are pure: no I/O, safe for concurrent use, and deterministic.
type Adapter interface {
	// Name is the wire format's name, "mem0".
	Name() string

	// Route finds the row of the route table that a request belongs to, by
	// method, decoded path and query. Unknown: false. A path spelled to mean
	// two things (an encoded slash that changes the row, dot segments) is
	// unknown, never guessed.
	Route(memproxy.Request) (memproxy.Route, bool)

	// Decode reads a request's payload (body, query, path parameters). An
	// unreadable payload is a *memproxy.Malformed; any other error is
	// breakage. It never returns an operation that leaves content out.
	Decode(memproxy.Route, memproxy.Request, []byte) (*memproxy.Operation, error)

	// Encode returns the body to forward: Hints whose Effective differs from
	// what was claimed are rewritten, Reserved pointers removed, the Stamp put
	// into every metadata home. Unknown fields, order and numbers survive. With
	// nothing to change it returns body itself. The returned query replaces the
	// request's where the route carries its payload there.
	Encode(memproxy.Route, memproxy.Request, []byte, *memproxy.Operation) (body []byte, query string, err error)

	// Refuse words a decision in the backend's own error dialect.
	Refuse(memproxy.Request, memproxy.Decision) memproxy.Reply
}

// A Reader is an Adapter whose reads can be taken apart. Adapters without
// it have their answers passed on as they are.
type Reader interface {
	// Read finds the memories in an answer. An answer that cannot be read is
	// an error; the gate then withholds it.
	Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error)

	// Rewrite returns the answer without the memories marked Drop, with Links
	// led back to Request.Base, and without fields that Encode had added to
	// the request. With nothing to change it returns the body itself.
	Rewrite(memproxy.Route, memproxy.Request, memproxy.Reply, *memproxy.Reading) ([]byte, error)
}

// A Withholder is an Adapter whose backend shows secrets in ordinary answers.
type Withholder interface {
	// Withhold takes the secrets' values out of an answer that is no
	// administrator's. With none in it, it returns the body itself. An answer
	// that cannot be read is an error.
	Withhold(memproxy.Route, []byte) ([]byte, error)
}

// A Locator is an Adapter that can ask its backend for one memory, so that
// operations by id can be ruled on.
type Locator interface {
	// Locate returns the request that fetches target.
	Locate(route memproxy.Route, req memproxy.Request, target string) memproxy.Request

	// Located reads the answer. A memory that does not exist comes back with
	// Missing set; an answer that says neither is an error.
	Located(route memproxy.Route, target string, reply memproxy.Reply) (memproxy.Memory, error)

	// Merges reports whether the route's patch must be merged with the memory
	// as it is (Operation.Current), so that the gate fetches it even when the
	// owner is known.
	Merges(route memproxy.Route, op *memproxy.Operation) bool
}

// A Holder is an Adapter that can answer for a write that is held: as its
// clients expect it of a write that takes its time.
type Holder interface {
	// Held words the answer to a write that is held. Where the backend's
	// clients take any success for done, there is no honest one: false.
	Held(memproxy.Route, memproxy.Request, *memproxy.Operation, memproxy.Decision) (memproxy.Reply, bool)

	// Polls returns the receipt that a request asks about, or "".
	Polls(memproxy.Route) string

	// Polled words the state of a held write whose receipt was asked about.
	Polled(memproxy.Route, memproxy.Request, memproxy.HeldWrite) memproxy.Reply
}

// A Keeper keeps held writes until somebody has decided on them.
type Keeper interface {
	// Keep returns when the write is durable.
	Keep(context.Context, memproxy.HeldWrite, memproxy.HoldContent) error

	// Kept returns what is known of a held write by its decision's id; false
	// when there is none.
	Kept(ctx context.Context, id string) (memproxy.HeldWrite, bool, error)
}

// A Fetcher sends a side request to the backend on behalf of an admission:
// with the same credentials, with a deadline of its own, bounded in size.
type Fetcher interface {
	Fetch(context.Context, memproxy.Request) (memproxy.Reply, error)
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

// A Ledger remembers whose memories are. An error means unknown: reads treat
// it as lowest trust, writes that need it are refused with 503.
type Ledger interface {
	// Owners returns what is known of the targets, by id. Ids that it does
	// not know are absent.
	Owners(ctx context.Context, backend string, kind memproxy.TargetKind, ids []string) (map[string]memproxy.Ownership, error)

	// Decision returns the ownership that was recorded for the write of a
	// decision, so that a memory that comes back with its stamp can be bound.
	Decision(ctx context.Context, backend, decision string) (memproxy.Ownership, bool, error)

	// Put inserts or replaces rows by (Backend, Kind, ID), in one transaction.
	Put(context.Context, ...memproxy.Ownership) error

	// Bind inserts the rows of which there is none by (Backend, Kind, ID), in
	// one transaction, and returns for each the one that then stands. Of callers
	// that bind one id at once, all are told the same.
	Bind(context.Context, ...memproxy.Ownership) ([]memproxy.Ownership, error)

	Disciplinarian
}

// A Sweeper is a Ledger that can note the deletion of everything within a
// scope.
type Sweeper interface {
	// Sweep leaves tombstones for the backend's memories within the scope,
	// of whatever tenant, and returns whose they were. An empty field of the
	// scope matches everything.
	Sweep(ctx context.Context, backend string, scope memproxy.Scope) ([]memproxy.Tally, error)
}

// A Registrar is a Ledger that knows how memories stand.
type Registrar interface {
	// Standings returns what is recorded, by id. What nothing is recorded of is
	// absent: it is untrusted. An error means that nothing is known.
	Standings(ctx context.Context, backend string, kind memproxy.TargetKind, ids []string) (map[string]memproxy.Standing, error)

	// SetState changes states, and returns how many it changed.
	SetState(context.Context, ...memproxy.StateChange) (int, error)
}

// A Historian is a Ledger that keeps the versions of memories.
type Historian interface {
	// Seal begins the history of memories that have none with what was found.
	Seal(context.Context, ...memproxy.Version) (int, error)

	// Append records versions. The same one again changes nothing.
	Append(context.Context, ...memproxy.Version) ([]memproxy.Version, error)

	// Chronicle does what Seal, Append and SetState do, all or nothing. It need
	// not be done when it returns, only queued: who asks afterwards finds it.
	Chronicle(context.Context, memproxy.Chronicle) error
}

// An Undertaker is a Sweeper that keeps versions.
type Undertaker interface {
	Sweeper
	// DeleteSwept appends a version like v to each memory within the scope that
	// was swept and whose history does not end yet, and returns to how many.
	DeleteSwept(ctx context.Context, backend string, scope memproxy.Scope, v memproxy.Version) (int, error)
}

// A Confirmer is a Ledger that lets memories end.
type Confirmer interface {
	// Confirm gives memories a new time of expiry. Expired ones come back.
	Confirm(ctx context.Context, expires time.Time, keys ...memproxy.MemoryKey) error
}

// A Disciplinarian counts rejections: by session, by principal and end user, and
// by principal.
type Disciplinarian interface {
	// SessionLocked returns the lock that is in force on one of the records, by
	// their ids, or the zero Lock.
	SessionLocked(ctx context.Context, tenant string, ids ...string) (memproxy.Lock, error)

	// NoteSession counts a decision; locked is set by the one that locks.
	NoteSession(context.Context, memproxy.SessionEvent) (s memproxy.Session, locked bool, err error)
}

// An Arbiter is a Ledger that remembers who disagrees with whom.
type Arbiter interface {
	// Contest notes a correction that was not let through.
	Contest(context.Context, memproxy.Dissent) error
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
