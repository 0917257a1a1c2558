package gate

import (
	"context"

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
