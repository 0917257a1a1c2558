package app

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets/redisstore"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/upkeep"
)

// Every store that does not answer in time is named, besides the others. A hanging
// store, whether or not it respects its context, is probed once until it answers. A
// failing required store makes the sidecar unready, others degrade it.
//
// Proves CARD-8, EDGE-14.
func TestReadinessNamesHangingStores(t *testing.T) { synctest.Test(t, testReadinessNamesHangingStores) }

func testReadinessNamesHangingStores(t *testing.T) {
	l := group.New(t.Context(), group.Options{Stages: stages, Loops: stageLoops})
	r := &readiness{begin: l.Go, within: answerTime, clock: time.Now}
	let := make(chan struct{})
	var questions atomic.Int32
	well := func() string { return "well" }
	r.add(probe{name: "quick", needed: true, okDetail: well, ask: func(context.Context) error { return nil }})
	r.add(probe{name: "frozen", needed: true, okDetail: well, ask: func(context.Context) error { questions.Add(1); <-let; return nil }})
	r.add(probe{name: "slow", okDetail: well, ask: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
	r.add(probe{name: "broken", okDetail: well, ask: func(context.Context) error { return errors.Join(errors.New("disk full"), errors.New("no room")) }})
	look := func(most time.Duration) map[string]string {
		t.Helper()
		begun, got := time.Now(), map[string]string{}
		for _, c := range r.checks() {
			state := "ok"
			switch {
			case !c.OK:
				state = "not ready"
			case c.Degraded:
				state = "degraded"
			}
			got[c.Name] = state + ": " + c.Detail
		}
		expect.Equal(t, time.Since(begun) <= most, true, "in time", time.Since(begun))
		return got
	}
	for _, most := range []time.Duration{2 * answerTime, answerTime / 2} { // the second request does not wait again
		got := look(most)
		for name, state := range map[string]string{"quick": "ok: well", "frozen": "not ready: no response", "slow": "degraded: no response", "broken": "degraded: disk full; no room, since 2000-01-01T00:00:00Z"} {
			expect.Text(t, got[name], name).Has(state)
		}
	}
	for range 5 {
		look(2 * answerTime)
	}
	expect.Equal(t, questions.Load(), 1, "it was asked")
	close(let)
	expect.OK(t, l.Close(t.Context()))
	expect.Equal(t, look(answerTime)["frozen"], "ok: well")
}

// Proves TRL-6: the connection's timeouts are at least the time limit of a charge.
func TestRedisTimeoutsMatchTheCharge(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{50 * time.Millisecond: redisstore.DefaultTimeout, 30 * time.Second: 30 * time.Second} {
		expect.Equal(t, sharedOptions(&config.Redis{Timeout: config.Duration(timeout)}).Timeout, want, timeout)
	}
}

// Proves EDGE-15: the stages of a stop fit into Kubernetes' default grace period.
func TestStagesFitTheGracePeriod(t *testing.T) {
	t.Parallel()
	var sum time.Duration
	for _, s := range stages {
		sum += s.Time
	}
	expect.Equal(t, sum <= 30*time.Second, true, "a stop is over before Kubernetes kills, after 30 s", sum)
}

// Process is the inside of a process, for tests of the whole.
type Process struct {
	// A test sets these before the start. The zero values are the product's.
	SendTimeout time.Duration        // timeout for sending approved writes and rollbacks
	Uptime      func() time.Duration // how long the process has been running; the default counts from New
	Pace        integrity.Pace       // pace of reading backends

	// The start sets these.
	Ledger  *ledger.Ledger
	Audit   *audit.Log
	Budget  gate.Budget
	Gate    *gate.Gate
	Checker *integrity.Checker
	Runner  *review.Runner
	Jobs    *upkeep.Jobs
	Group   *group.Group
	// Take puts an edit of the configuration in force.
	Take func(context.Context, *config.Config) error
	// Processor builds Envoy's processor, and ListenExtproc serves one, at ExtprocAddr.
	Processor     func(unfilteredReads bool) (*extproc.Processor, error)
	ListenExtproc func(address string, authorize bool) error
	ExtprocAddr   string
}

// NewProcess is New with what a test sets of the inside, which it fills in.
func NewProcess(ctx context.Context, cfg *config.Config, o Options, in *Process) (*App, error) {
	o.sending, o.up, o.pace = in.SendTimeout, in.Uptime, in.Pace
	s, err := New(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	in.Ledger, in.Audit, in.Budget, in.Gate, in.Checker, in.Runner, in.Jobs, in.Group = s.ledger, s.audit, s.budget, s.gate, s.checker, s.review.Runner, s.jobs, s.group
	in.Take, in.Processor = s.edits.apply, s.processor
	in.ListenExtproc = func(address string, authorize bool) error {
		l, err := s.listenExtproc(Envoy{Listen: address, Authorize: authorize})
		if err == nil {
			in.ExtprocAddr = l.ln.Addr().String()
		}
		return err
	}
	return s, nil
}

// A ledger that cannot be written, on a full volume for example, does not keep the audit log
// from giving room back: records beyond audit.max_bytes are removed, none by age, and the
// job still fails.
func TestLogIsPrunedBySizeWithoutTheLedger(t *testing.T) {
	full, dir := errors.New("database or disk is full"), ring.Dir(t)
	log := must.Get(audit.Open(audit.Options{Dir: dir, Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), Origin: "test/log", Sync: func(*os.File) error { return nil }}))(t)
	defer func() { must.Do(t, log.Close(context.Background())) }()
	for range 3 * 256 {
		must.Do(t, log.RecordAsync(memproxy.Event{Type: memproxy.EventStart}))
	}
	must.Do(t, log.Flush(t.Context()))
	noted := func(context.Context, time.Duration) (time.Time, error) { return time.Time{}, full }
	guard := upkeep.NewClockGuard(time.Now, func() time.Duration { return 0 }, noted, slog.New(slog.DiscardHandler))
	for _, tc := range []struct {
		maxBytes int64
		left     int
	}{{0, 3}, {1, 1}} {
		expect.Is(t, pruning(log, guard, time.Hour, tc.maxBytes)(t.Context(), time.Now().AddDate(1, 0, 0)), full)
		expect.Len(t, must.Get(filepath.Glob(filepath.Join(dir, "tile/entries/???")))(t), tc.left, "at most", tc.maxBytes, "bytes: files")
	}
}
