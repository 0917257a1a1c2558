// Package gate decides which memory operations are forwarded and what their answers
// show. It declares the interfaces of its collaborators, runs the steps of a write and
// the filters of a read in a fixed order (docs/design.md, "Life of a write" and "Life
// of a read"), and pins one immutable Rules for each request.
//
// Where to read: steps.go has the list of a write's steps and runs it; rule.go, targets.go,
// tenancy.go, screening.go, budget.go, locks.go and hold.go have the steps. filters.go has
// the list of an answer's filters and applies them; judgements.go judges single memories,
// wholeanswer.go whole answers, from what loads.go has loaded. remember.go and history.go
// record what a write did.
//
// It guarantees three things. Every operation passes the same steps in the same order,
// whichever listener calls the gate (HTTP or Envoy). An error of a collaborator never
// becomes an allow. The audit record of a decision is durable before Admit returns
// anything that may be forwarded.
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
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/flood"
	"github.com/memproxy/memproxy/gate/seen"
	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/internal/keyed"
)

// A Meter counts and times. Implementations never block.
type Meter interface {
	// Step times one step of an admission or a return.
	Step(ctx context.Context, step string, d time.Duration)
	// Decided counts a decision, by its audit event.
	Decided(ctx context.Context, ev *memproxy.Event)
	// Filtered counts memories left out of an answer.
	Filtered(ctx context.Context, backend string, n int)
	// Unclaimed counts members and headers of answers that no row claims.
	Unclaimed(ctx context.Context, backend string, n int)
	// LedgerFailed counts failed ledger calls.
	LedgerFailed(ctx context.Context)
}

// Options are a Gate's collaborators and settings. Identifier, Ledger, Budget, Recorder,
// Signer, Clock and NewID are required.
type Options struct {
	Identifier Identifier
	Ledger     Ledger
	Budget     Budget
	Recorder   Recorder
	Signer     Signer

	// Holds stores held writes. If it is nil, held writes are refused.
	Holds HoldStore
	// RefuseHolds answers held writes with a refusal although they are stored, for
	// callers that must learn of the hold at once.
	RefuseHolds bool

	// Clock and NewID are injected so that tests are deterministic. NewID
	// returns a new decision id: unguessable, unique, printable, at most 64
	// bytes.
	Clock func() time.Time
	NewID func() string

	// Check queues a memory for the integrity sweep: an answer showed a text that
	// differs from row's hash, and the backend's own agents edit such memories. It does
	// not block. If it is nil, there is no sweep.
	Check func(row memproxy.Ownership) (queued bool)

	// Unconfirmed receives the decision on a change or deletion that the backend did
	// not confirm, if the outcome for one of its targets is unknown. It does not block.
	// If it is nil, such outcomes stay unknown.
	Unconfirmed func(memproxy.Event)

	// Filtered, if set, is called with the name of each read filter that an answer
	// passes.
	Filtered func(rt memproxy.Route, filter string)

	// Steps, if set, is called at the points at which a crash must lose nothing.
	Steps memproxy.Stepper

	// Rejections is the number of rejected requests per minute and address that get
	// an audit record each; further ones are only counted. Default DefaultRejections;
	// negative: all are recorded.
	Rejections int

	// StoreTimeout bounds a call of a store that does not end with its caller, such as the
	// writing of an audit record. Default 5 s.
	StoreTimeout time.Duration

	Tracer trace.Tracer
	Meter  Meter
	Log    *slog.Logger
}

// Timeouts and concurrency of the work for one request.
const (
	DefaultFetchTimeout = 5 * time.Second // default of Backend.SideTimeout
	DefaultStoreTimeout = 5 * time.Second // default of Options.StoreTimeout
	fetchParallel       = 8               // concurrent side requests of one admission
)

// Gate rules on requests and filters answers. It is safe for concurrent use.
type Gate struct {
	opt   Options
	rules atomic.Pointer[Rules]

	tracks  cache.Cache[author, track]
	readers *seen.Readers

	rejected flood.Counter
	// order puts the changes of one memory in order, from its lookup until the outcome is in
	// the ledger, so that the last text in the backend is also the last in the ledger, and a
	// deleted memory stays deleted. Changes of other processes on the same ledger are not in it:
	// one whose outcome conflicts with another's asks the backend which was the last.
	order    keyed.Queue
	accounts accounts
	reported reported

	scopeDeleted atomic.Pointer[time.Time] // when an owner's memories were last deleted in bulk
}

// New returns a gate that applies rules until Use replaces them.
func New(opt Options, rules *Rules) (*Gate, error) {
	switch {
	case opt.Identifier == nil, opt.Ledger == nil, opt.Budget == nil, opt.Recorder == nil, opt.Signer == nil:
		return nil, errors.New("gate: a required dependency is missing")
	case opt.Clock == nil, opt.NewID == nil:
		return nil, errors.New("gate: clock and ids must be injected")
	}
	opt.StoreTimeout = cmp.Or(opt.StoreTimeout, DefaultStoreTimeout)
	opt.Tracer = cmp.Or(opt.Tracer, noop.NewTracerProvider().Tracer(""))
	opt.Meter = cmp.Or(opt.Meter, Meter(noMeter{}))
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	opt.Ledger = metered{opt.Ledger, opt.Meter}
	if opt.Unconfirmed == nil {
		opt.Unconfirmed = func(memproxy.Event) {}
	}
	g := &Gate{opt: opt, tracks: cache.New[author, track](maxTracks), readers: seen.New(opt.Clock)}
	g.accounts.opt = &g.opt
	g.rejected.Limit = cmp.Or(opt.Rejections, DefaultRejections)
	if err := g.Use(rules); err != nil {
		return nil, err
	}
	return g, nil
}

// Use replaces the rules. Requests under way keep the rules that they pinned. If the new
// rules lack a part, Use returns an error and the old ones stay in force.
func (g *Gate) Use(r *Rules) error {
	if r == nil || r.Policy == nil || r.Lines == nil {
		return errors.New("gate: rules without a policy or budget lines")
	}
	g.rules.Store(r)
	return nil
}

type noMeter struct{}

func (noMeter) Step(context.Context, string, time.Duration) {}

func (noMeter) Decided(context.Context, *memproxy.Event) {}

func (noMeter) Filtered(context.Context, string, int) {}

func (noMeter) Unclaimed(context.Context, string, int) {}

func (noMeter) LedgerFailed(context.Context) {}

// Backend is one configured backend as the gate sees it.
type Backend struct {
	Name               string
	Adapter            backend.Adapter
	Fetch              backend.Fetcher // sends side requests; if nil, unknown owners stay unknown
	Ungated            Ungated         // how runs that cannot be gated are treated
	ReplacesCredential bool            // memproxy sends its own credential instead of the caller's
	// Tenant is the only tenant with memories in the backend; "" if several share
	// it. Callers of other tenants are refused.
	Tenant string
	// SideTimeout bounds each look-up of an object, the side requests of any other step
	// together, and the time that a request waits for its turn. Default DefaultFetchTimeout.
	SideTimeout time.Duration
	// UpstreamTimeout bounds the time until the backend answers a listener's request, and the
	// time between two parts of a streamed answer; the stream as a whole may last longer.
	// Letta sends a keep-alive every 20 s. 0 means that it is unknown, as behind Envoy.
	UpstreamTimeout time.Duration
}

// Within returns a context that ends after the backend's timeout.
func (b *Backend) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.timeout())
}

func (b *Backend) timeout() time.Duration { return cmp.Or(b.SideTimeout, DefaultFetchTimeout) }

// Call is one request as a listener hands it to the gate.
type Call struct {
	Backend Backend
	// Credentials are what the caller presents. Rejections are counted by its Peer.
	memproxy.Credentials
	Request memproxy.Request
	// Route is the matching row of the adapter's route table. Known is false if there
	// is none; the call is then refused and recorded, unless the profile lets unknown
	// reads pass.
	Route memproxy.Route
	Known bool
	// NoMemoryAccess is set for a request that touches no memory and is streamed. Only
	// its head is ruled on, and Body is empty. Of its answer only the members are
	// checked.
	NoMemoryAccess bool
	Body           []byte
	// Flaw says why the listener could not receive the body (too large, too slow), or is
	// nil. The call is then refused and recorded with it.
	Flaw *memproxy.Flaw
	// RefuseInShadow is set if Flaw is a protocol error, or the limit of concurrent
	// requests is reached. The call is then refused in shadow mode as well.
	RefuseInShadow bool
	// ReadOptions are the caller's options for memproxy itself.
	ReadOptions ReadOptions
	// ObserveOnly is set if the listener sees only a copy of the request. The call is then
	// ruled on in shadow mode, whatever the rules say.
	ObserveOnly bool

	who *identified
	// restores is set if a reviewer restores a version of an object.
	restores bool
}

// ReadOptions are the options that a reader sets for memproxy, not for the backend.
type ReadOptions struct {
	// MinTrust is the lowest confidence of the memories to return.
	MinTrust memproxy.PerMille
	// Provenance asks for the provenance of the memories.
	Provenance bool
}

// Caller returns the account and the tenant of the principal that Identify determined.
// Both are empty if the caller was not identified.
func (c *Call) Caller() (account, tenant string) {
	if c.who == nil || c.who.err != nil {
		return "", ""
	}
	return c.who.principal.Account(), c.who.principal.Tenant
}

// Admission is the gate's answer to a call. Next says what the listener does with it: it
// sends Reply, or it forwards Body and Query and passes the backend's answer to Return.
type Admission struct {
	Decision  memproxy.Decision
	Principal memproxy.Principal
	// Next is what the listener does next. Reply is the whole answer if nothing is
	// forwarded, or nil.
	Next  Next
	Reply *memproxy.Reply
	// Body and Query are to be forwarded. Unless Changed is set, they are the call's
	// own, byte for byte.
	Body    []byte
	Query   string
	Changed bool
	// RateLimited is set for a rejection beyond the rate limit. It is only counted, with
	// neither a record nor a log line of its own. A listener may delay its sender.
	RateLimited bool
	// Inspect is set if the answer must be read before it is passed on. The listener
	// then buffers it and requests identity encoding from the backend.
	Inspect bool
	// ErrorsByStatus is set if the answer is a page or a file, which is not read. Of
	// an error only the status is then passed on, because its body can contain
	// anything.
	ErrorsByStatus bool
	// Contested are, after Return, the ids of the contested memories in the answer.
	Contested []string
	// Unverified are, after Return, the ids of the shown memories that differ from
	// what was written through memproxy.
	Unverified []string

	// Rewritten are the pointers of the request's texts that were changed before
	// it was sent (GOV-5), sorted.
	Rewritten []string
	// AnswerRefusal is, after Return, the refusal that replaces the answer, or nil.
	AnswerRefusal *memproxy.Decision
	// Memories are, after Return, the ids that were written or shown.
	Memories []string
	// Failed is set, after Return, if the backend reports a failure with a status of success.
	Failed bool

	call   *Call
	rules  *Rules
	op     *memproxy.Operation
	owners map[string]memproxy.Ownership
	// namedRecords has the ledger's records of the owners and objects that the request names.
	// namesToBind are the named owners that the operation has to bind to the tenant;
	// boundNames are those that it was the first to use, until it is known whether anything
	// was written.
	namedRecords    *lookups
	namesToBind     []string
	boundNames      []memproxy.Ownership
	sent            bool            // a run's first request was sent
	changedMemories []changedMemory // the memories that the operation would change
	bill            *bill
	event           memproxy.Event
	findings        []memproxy.Finding // the screening findings in the write
	reworded        *reworded          // the rewritten write that is sent instead, or nil
	configured      []memproxy.Finding // the findings in an owner's configuration, which refuse nothing
	receipts        []string           // the backend's receipts for what its model extracts from the write
	// calls maps the ids of the tool calls that the turn reported to whether all of
	// their arguments are known.
	calls         map[string]bool
	toolObserver  memproxy.ToolObserver // follows the results of tools in the answers to a run
	countRequests []memproxy.Request    // ask the backend how many memories the write made
	marks         []string              // the reason codes with which the written memories are marked
	// flaggedAs is the state that the memories of a write get if it is admitted although it
	// looks dangerous (Rules.NeverRefuse), or "".
	flaggedAs memproxy.MemoryState
	// heldWrite is the held write that is sent or evaluated again, or nil. heldContent is
	// the content of one that is sent.
	heldWrite   *memproxy.HeldWrite
	heldContent memproxy.HoldContent
	confirmed   bool // a person approved the write
	// track is the caller's track record, once it is loaded.
	track       memproxy.Track
	attestation memproxy.Attestation // how well the source of the written content is known
	begun       time.Time
	// unlock releases the locks of a change; it is nil if there are none. callLocks are the
	// keys of the blocks that the calls of an agent's turn have locked until then.
	unlock      func()
	callLocks   []string
	compensated bool      // the run is admitted, and compensated at its end
	ungatedWhy  string    // the adapter's explanation why the request cannot be ruled on, or ""
	leftovers   leftovers // the members without a claim in the answers so far
	leftOut     int       // the number of memories that were left out of the answer
	// streamObjects has the objects that the events of a stream named so far, and whether
	// they are another tenant's.
	streamObjects map[memproxy.MemoryKey]bool
	streamRuns    streamRuns
	edits         memproxy.Edits // follows the tool call that a client makes directly, in place of an agent
}

// Shown returns the decision that the caller sees: the one on the answer if the answer
// was refused, else the one on the request.
func (a *Admission) Shown() *memproxy.Decision {
	if a.AnswerRefusal != nil {
		return a.AnswerRefusal
	}
	return &a.Decision
}

// Call is the admitted call.
func (a *Admission) Call() *Call { return a.call }

// Writes reports whether the operation may change memory. Forwarding it must then
// complete even if the caller hangs up.
func (a *Admission) Writes() bool { return a.op != nil && a.op.Kind.Writes() }

// Streams reports whether the answer may be a stream of events (an agent's run, a
// connection that is being set up), which is filtered event by event.
func (a *Admission) Streams() bool {
	return a.op != nil && (a.op.Kind == memproxy.Run || a.op.Kind == memproxy.Admin)
}

// Shadow reports whether the decision is only recorded, not enforced.
func (a *Admission) Shadow() bool { return !a.enforced() }

// enforced reports whether the decision applies. A request that a reviewer causes is
// memproxy's own and carries its stamp, so it is refused in shadow mode as well.
func (a *Admission) enforced() bool {
	return (a.rules.Enforce || a.call.RefuseInShadow || a.heldWrite != nil || a.call.restores) && !a.call.ObserveOnly
}
