package gate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/memproxy/memproxy"
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

// Options are a Gate's collaborators, all required but Keeper, Later, Tracer,
// Meter and Log.
type Options struct {
	Identifier Identifier
	Ledger     Ledger
	Budget     Budget
	Recorder   Recorder
	Signer     Signer

	// Keeper keeps held writes. Nil: a hold is a refusal.
	Keeper Keeper
	// RefuseHolds answers held writes with a refusal although they are kept,
	// for callers who shall know at once.
	RefuseHolds bool

	// Clock and NewID are injected so that tests are deterministic. NewID
	// returns a new decision id: unguessable, unique, printable, at most 64
	// bytes.
	Clock func() time.Time
	NewID func() string

	// Later runs what needs not be done before the caller has its answer: what
	// has the same key in order. Nil: at once.
	Later func(key string, f func())

	// Check queues a memory for a check by the sweep: an answer shows another
	// text than row has, and the backend's own agents change such memories. It
	// does not block. Nil: there is no sweep.
	Check func(row memproxy.Ownership) (queued bool)

	// Filtered is told of every filter of the read path that an answer goes
	// through, by its name; nil: nobody.
	Filtered func(rt memproxy.Route, filter string)

	// Steps is told of points at which a crash must lose nothing; nil: nobody.
	Steps memproxy.Stepper

	// Rejections is how many rejected requests a minute of one address are
	// recorded one by one; more are counted. Default DefaultRejections;
	// negative: all are recorded.
	Rejections int

	// FetchTimeout bounds one side request to the backend. Default 5 s.
	FetchTimeout time.Duration
	// RecordTimeout bounds the writing of one audit record. Default 5 s.
	RecordTimeout time.Duration
	// FetchParallel bounds the side requests of one admission. Default 8.
	FetchParallel int

	Tracer trace.Tracer
	Meter  Meter
	Log    *slog.Logger
}

// Defaults of Options.
const (
	DefaultFetchTimeout  = 5 * time.Second
	DefaultFetchParallel = 8
	DefaultRecordTimeout = 5 * time.Second
)

// Gate decides. It is safe for concurrent use.
type Gate struct {
	opt   Options
	rules atomic.Pointer[Rules]

	tracks  *tracks
	readers *readers

	rejected rejections
	order    order

	headers struct {
		sync.Mutex
		told map[string]bool // headers of answers, by backend, that were named
	}
}

// New returns a gate that rules by rules until Use replaces them.
func New(opt Options, rules *Rules) (*Gate, error) {
	switch {
	case opt.Identifier == nil, opt.Ledger == nil, opt.Budget == nil, opt.Recorder == nil, opt.Signer == nil:
		return nil, errors.New("gate: a collaborator is missing")
	case opt.Clock == nil, opt.NewID == nil:
		return nil, errors.New("gate: clock and ids must be injected")
	}
	if opt.FetchTimeout <= 0 {
		opt.FetchTimeout = DefaultFetchTimeout
	}
	if opt.RecordTimeout <= 0 {
		opt.RecordTimeout = DefaultRecordTimeout
	}
	if opt.FetchParallel <= 0 {
		opt.FetchParallel = DefaultFetchParallel
	}
	if opt.Later == nil {
		opt.Later = func(_ string, f func()) { f() }
	}
	if opt.Tracer == nil {
		opt.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if opt.Meter == nil {
		opt.Meter = deafMeter{}
	}
	opt.Ledger = Metered(opt.Ledger, opt.Meter)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gate{opt: opt, tracks: newTracks(opt.Clock), readers: newReaders(opt.Clock)}
	if g.rejected.limit = opt.Rejections; opt.Rejections == 0 {
		g.rejected.limit = DefaultRejections
	}
	if err := g.Use(rules); err != nil {
		return nil, err
	}
	return g, nil
}

// Use replaces the rules. Requests that are under way keep the ones they
// pinned. Rules that are incomplete are refused and the old ones stay.
func (g *Gate) Use(r *Rules) error {
	if err := r.validate(); err != nil {
		return err
	}
	g.rules.Store(r)
	return nil
}

// Rules returns the rules that a request starting now would pin.
func (g *Gate) Rules() *Rules { return g.rules.Load() }

// deafMeter is the Meter of those who do not want one.
type deafMeter struct{}

func (deafMeter) Step(context.Context, string, time.Duration) {}
func (deafMeter) Decided(context.Context, *memproxy.Event)    {}
func (deafMeter) Filtered(context.Context, string, int)       {}
func (deafMeter) Unclaimed(context.Context, string, int)      {}
func (deafMeter) LedgerFailed(context.Context)                {}
