// Package gate is the decision. It declares the small interfaces of its
// collaborators, runs the ordered steps of design.md's life of a write and
// life of a read, and pins one immutable Rules for each request.
//
// It promises: whichever listener calls it (HTTP or Envoy), every operation passes
// the same steps in the same order; an error of a collaborator never becomes
// an allow; and the audit record of a decision is durable before Admit
// returns anything that may be forwarded.
package gate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/flood"
	"github.com/memproxy/memproxy/gate/queue"
	"github.com/memproxy/memproxy/gate/seen"
	"github.com/memproxy/memproxy/internal/cache"
)

// A Meter counts and times. Implementations never block.
type Meter interface {
	// Step times one step of an admission or a return.
	Step(ctx context.Context, step string, d time.Duration)
	// Decided counts a decision.
	Decided(ctx context.Context, ev *memproxy.Event)
	// Filtered counts memories left out of an answer.
	Filtered(ctx context.Context, backend string, n int)
	// Unclaimed counts members and headers of answers that no row claims.
	Unclaimed(ctx context.Context, backend string, n int)
	// LedgerFailed counts ledger calls that failed and were survived.
	LedgerFailed(ctx context.Context)
}

// Options are a Gate's collaborators, all required but Keeper, Later, Unconfirmed,
// Tracer, Meter and Log.
type Options struct {
	Identifier Identifier
	Ledger     Ledger
	Budget     Budget
	Recorder   Recorder
	Signer     Signer

	// Keeper keeps held writes. Nil: a hold is a refusal.
	Keeper Keeper
	// RefuseHolds answers held writes with a refusal although they are stored, for
	// callers who need to know at once.
	RefuseHolds bool

	// Clock and NewID are injected so that tests are deterministic. NewID
	// returns a new decision id: unguessable, unique, printable, at most 64
	// bytes.
	Clock func() time.Time
	NewID func() string

	// Later runs work that need not finish before the caller has its answer: in
	// order for the same key. Nil: it runs at once.
	Later func(key string, f func())

	// Check queues a memory for the sweep if an answer shows another text than row
	// has and the backend's own agents edit such memories. It does not block. Nil:
	// there is no sweep.
	Check func(row memproxy.Ownership) (queued bool)

	// Unconfirmed is notified of the decision of a change or deletion that the backend
	// did not confirm, if it is not known for all its targets what became of them. It
	// does not block. Nil: they stay unknown.
	Unconfirmed func(memproxy.Event)

	// Filtered is notified of every filter of the read path that an answer goes
	// through, by its name; nil: it is off.
	Filtered func(rt memproxy.Route, filter string)

	// Steps is notified of points at which a crash must lose nothing; nil: it is
	// off.
	Steps memproxy.Stepper

	// Rejections is how many rejected requests a minute of one address are
	// recorded one by one; more are counted. Default DefaultRejections;
	// negative: all are recorded.
	Rejections int

	// RecordTimeout bounds the writing of one audit record. Default 5 s.
	RecordTimeout time.Duration

	Tracer trace.Tracer
	Meter  Meter
	Log    *slog.Logger
}

// Bounds of what a request waits for.
const (
	DefaultFetchTimeout  = 5 * time.Second // of Backend
	DefaultRecordTimeout = 5 * time.Second // of Options
	fetchParallel        = 8               // side requests of one admission at a time
)

// Gate decides. It is safe for concurrent use.
type Gate struct {
	opt   Options
	rules atomic.Pointer[Rules]

	tracks  tracks
	readers *seen.Readers

	rejected flood.Counter
	order    queue.Queue
	notes    notes
	accounts accounts
	reported reported

	cleared atomic.Pointer[time.Time] // when all that an owner has was last deleted
}

// New returns a gate that applies rules until Use replaces them.
func New(opt Options, rules *Rules) (*Gate, error) {
	switch {
	case opt.Identifier == nil, opt.Ledger == nil, opt.Budget == nil, opt.Recorder == nil, opt.Signer == nil:
		return nil, errors.New("gate: a collaborator is missing")
	case opt.Clock == nil, opt.NewID == nil:
		return nil, errors.New("gate: clock and ids must be injected")
	}
	opt.RecordTimeout = cmp.Or(opt.RecordTimeout, DefaultRecordTimeout)
	opt.Tracer = cmp.Or(opt.Tracer, noop.NewTracerProvider().Tracer(""))
	opt.Meter = cmp.Or(opt.Meter, Meter(noMeter{}))
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	opt.Ledger = metered{opt.Ledger, opt.Meter}
	if opt.Later == nil {
		opt.Later = func(_ string, f func()) { f() }
	}
	if opt.Unconfirmed == nil {
		opt.Unconfirmed = func(memproxy.Event) {}
	}
	g := &Gate{opt: opt, tracks: tracks{cache.New[author, kept](maxTracks), opt.Clock, opt.RecordTimeout / trackShare}, readers: seen.New(opt.Clock)}
	g.notes = notes{&g.opt}
	g.accounts = accounts{g.notes}
	g.rejected.Limit = cmp.Or(opt.Rejections, DefaultRejections)
	if err := g.Use(rules); err != nil {
		return nil, err
	}
	return g, nil
}

// Use replaces the rules. Requests under way keep the ones they pinned. Incomplete
// rules are refused, and the old ones remain.
func (g *Gate) Use(r *Rules) error {
	if err := r.validate(); err != nil {
		return err
	}
	g.rules.Store(r)
	return nil
}

// Rules returns the rules that a request starting now would pin.
func (g *Gate) Rules() *Rules { return g.rules.Load() }

// noMeter is the default Meter, which discards everything.
type noMeter struct{}

func (noMeter) Step(context.Context, string, time.Duration) {}
func (noMeter) Decided(context.Context, *memproxy.Event)    {}
func (noMeter) Filtered(context.Context, string, int)       {}
func (noMeter) Unclaimed(context.Context, string, int)      {}
func (noMeter) LedgerFailed(context.Context)                {}

// Backend is one configured backend as the gate sees it.
type Backend struct {
	Name    string
	Adapter Adapter
	Fetch   Fetcher // nil: nothing can be fetched, unknown owners remain unknown
	Ungated Ungated // how runs that cannot be gated are treated
	Lends   bool    // memproxy presents a credential of its own to it
	// Tenant is the only tenant with memories in the backend; "" if several share
	// it. Callers of other tenants are refused.
	Tenant string
	// SideTimeout bounds what memproxy asks the backend on behalf of one request, and what
	// that request waits for. Default DefaultFetchTimeout.
	SideTimeout time.Duration
}

// Within returns a context that ends after the backend's timeout.
func (b *Backend) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.timeout())
}

func (b *Backend) timeout() time.Duration { return cmp.Or(b.SideTimeout, DefaultFetchTimeout) }

// Call is one request at the gate.
type Call struct {
	Backend     Backend
	Credentials memproxy.Credentials
	Request     memproxy.Request
	// Route is the adapter's row. Known is false when it has none; the call is
	// then refused and recorded, unless the profile lets unknown reads pass.
	Route memproxy.Route
	Known bool
	// Passed is set if the request touches no memory and is streamed: it is ruled
	// on by its head, and Body is empty. Only the members of its answer are
	// checked, if it has any.
	Passed bool
	Body   []byte
	// Flaw is set if the listener could not receive the body: too large, too slow. The
	// call is then refused and recorded with it.
	Flaw *memproxy.Malformed
	// Barred is set if Flaw is a protocol error, or the limit of concurrent
	// requests is reached: the call is refused in shadow mode as well.
	Barred bool
	// Peer is the remote address of the connection, without its port, or "".
	// Rejections are counted by it. It is never taken from a header.
	Peer string
	// Session is the caller's session, from a header, or none.
	Session memproxy.SessionName
	// Wishes are the caller's requests to memproxy itself.
	Wishes Wishes
	// Watch reports that the listener only sees a copy of the request: it is ruled on
	// in shadow mode, whatever the rules say.
	Watch bool

	who *identified
	// restores is set if a reviewer restores a version of an object.
	restores bool
}

// Wishes are a reader's requests to memproxy itself.
type Wishes struct {
	// MinTrust is the lowest confidence of the memories to return.
	MinTrust memproxy.PerMille
	// Provenance asks for the provenance of the memories.
	Provenance bool
}

// credentials are the caller's credentials, with the address of the connection.
func (c *Call) credentials() memproxy.Credentials {
	all := c.Credentials
	all.Peer, all.Session = c.Peer, c.Session
	return all
}

// Caller is the account and the tenant that Identify found. Both are empty if it
// found none.
func (c *Call) Caller() (account, tenant string) {
	if c.who == nil || c.who.err != nil {
		return "", ""
	}
	return c.who.principal.Account(), c.who.principal.Tenant
}

// Admission is the gate's answer to a call. Exactly one of these holds: Reply
// is set and is the whole answer; or the request is to be forwarded with Body
// and Query, and Return is to be called with what came back.
type Admission struct {
	Decision  memproxy.Decision
	Principal memproxy.Principal
	// Next is the remaining action. Reply is its answer, or nil.
	Next  Next
	Reply *memproxy.Reply
	// Body and Query are to be forwarded. They are the call's own, untouched,
	// unless Changed.
	Body    []byte
	Query   string
	Changed bool
	// Flooded is set for a rejection beyond the rate limit: it is counted, and has
	// neither a record nor a log line of its own. A listener may delay its sender.
	Flooded bool
	// Inspect is set when the answer must be read before it is passed on; the
	// listener then buffers it and asks upstream for identity encoding.
	Inspect bool
	// ErrorsByStatus is set if the answer is a page or a file, which is not read:
	// an error is then passed on by its status alone, because its body can contain
	// anything.
	ErrorsByStatus bool
	// Contested are, after Return, the memories of the answer that are contested.
	Contested []string
	// Unverified are, after Return, the memories of the answer that are not
	// what was written through the proxy, as far as they are shown.
	Unverified []string

	// Rewritten are the places of the request's texts that were changed before
	// it was sent (GOV-5), sorted.
	Rewritten []string
	// Answered is, after Return, the refusal that replaces the answer, or nil.
	Answered *memproxy.Decision
	// Memories are, after Return, the ids that were written or shown.
	Memories []string

	call   *Call
	rules  *Rules
	op     *memproxy.Operation
	owners map[string]memproxy.Ownership
	// named has the records of the owners and objects that the request names,
	// unbound the owners without a record that a write binds to the tenant.
	named    *lookups
	unbound  []string
	authored []authored // of the memories that the operation would change
	bill     *bill
	event    memproxy.Event
	// findings are the findings in the write, receipts the backend's receipts for
	// what its model makes of it.
	findings []memproxy.Finding
	// reworded is the rewritten write that is sent instead, or nil.
	reworded *reworded
	// configured are the findings in an owner's configuration, which do not count.
	configured []memproxy.Finding
	receipts   []string
	// calls are the tool calls that the turn reported, and whether all of their
	// arguments are known.
	calls    map[string]bool
	listener memproxy.Listener
	// counting are the requests that ask how many memories the write came to.
	counting []memproxy.Request
	// marks are the codes for which what is written is marked.
	marks []string
	// aside is the state of the memories of a write that is admitted although it
	// looks dangerous, or "".
	aside memproxy.MemoryState
	// waited is the held write that is being sent.
	waited *memproxy.HeldWrite
	// objects are what it changed by other names than their ids when it was held.
	objects map[string]string
	// before are hashes of the texts that it was to replace, see HoldContent.
	before map[string]string
	// texts are those that its reviewers saw.
	texts []memproxy.HeldText
	// confirmed is set if a person approved the write.
	confirmed bool
	// paid is what the write was charged when it was held, or nil.
	paid *memproxy.Charge
	// track is the caller's track record; trackKnown is set if the ledger returned
	// it.
	track      memproxy.Track
	trackKnown bool
	// attestation is how well the source of the written content is known.
	attestation memproxy.Attestation
	begun       time.Time
	// leave ends the turn of a change (see order); nil: it has none.
	leave func()
	// watched is set for a run that is admitted and compensated.
	watched bool
	// unruled says why the request cannot be ruled on, if the adapter knows more than
	// that it cannot.
	unruled string
	// leftovers are the members without a claim in the answers so far.
	leftovers leftovers
	// leftOut is the number of memories that were left out of the answer.
	leftOut int
	// met has the ledger's answers about the objects that the events of a stream
	// named so far.
	met met
	// sources are the runs that a stream named.
	sources sources
	// edits follow the tool call that the request makes in an agent's place.
	edits memproxy.Edits
}

// Shown is the decision that the caller sees: the one on the answer if that was
// refused, else the one on the request.
func (a *Admission) Shown() *memproxy.Decision {
	if a.Answered != nil {
		return a.Answered
	}
	return &a.Decision
}

// Call is the admitted call.
func (a *Admission) Call() *Call { return a.call }

// Writes reports whether the operation may change memory: its forwarding must then
// not be cut short when the caller hangs up.
func (a *Admission) Writes() bool { return a.op != nil && a.op.Kind.Writes() }

// Streams reports whether the answer may be a stream of events, which are
// pruned one by one: an agent's run, a connection that is being set up.
func (a *Admission) Streams() bool {
	return a.op != nil && (a.op.Kind == memproxy.Run || a.op.Kind == memproxy.Admin)
}

// Runs reports whether an agent runs: its answer may stream.
func (a *Admission) Runs() bool { return a.op != nil && a.op.Kind == memproxy.Run }

// Shadow reports whether the admission is only observed, not enforced.
func (a *Admission) Shadow() bool { return !a.enforced() }

// enforced: what reviewers cause is memproxy's own request, which has its stamp and is
// refused in shadow mode as well.
func (a *Admission) enforced() bool {
	return (a.rules.Enforce || a.call.Barred || a.waited != nil || a.call.restores) && !a.call.Watch
}
