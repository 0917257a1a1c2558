package agentrun

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/wait"
)

// Options configure the runs of one backend. All but Dir and Steps are required.
type Options struct {
	Gate *gate.Gate
	frontend.Backend
	// Side sends memproxy's own requests to the backend.
	Side *frontend.Side
	// RunTimeout is the timeout of a run.
	RunTimeout time.Duration
	// Dir is the directory of unfinished runs, which the next process reads. It contains
	// memories. If it is "", runs are not compensated, and the pending calls of
	// interrupted turns wait for the agent's next turn.
	Dir string
	// PauseLimit is how long a pause may last before it is declined; zero is no limit.
	PauseLimit time.Duration
	frontend.Runtime
	// Steps is called at the points at which a crash must lose nothing, if it is not nil.
	Steps memproxy.Stepper
}

// Runs handles the runs of one backend's agents. It is safe for concurrent use.
type Runs struct {
	Locks   Locks   // held while a run may change its agents
	Streams Streams // of turns

	opt     Options
	journal journal
	turns   turns

	life  context.Context // context of background work
	end   context.CancelFunc
	after sync.WaitGroup
}

// New returns the Runs of a backend.
func New(opt Options) *Runs {
	r := &Runs{
		Streams: Streams{Clock: opt.Clock},
		opt:     opt,
		journal: journal{dir: opt.Dir, runs: map[string]*attempt{}},
		turns:   turns{interrupted: map[string]interruptedTurn{}},
	}
	if opt.Dir != "" && opt.PauseLimit > 0 {
		r.turns.dir = filepath.Join(opt.Dir, "turns")
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// TurnsBegun returns a function that reports whether any turn that is in progress now is
// still in progress, or its changes are not recorded yet.
func (r *Runs) TurnsBegun() (underway func() bool) { return r.Locks.HeldNow() }

// LongestTurn is the time limit of a turn that is not streamed, and the longest time
// without an event of one that is.
func (r *Runs) LongestTurn() time.Duration { return r.opt.RunTimeout }

// Close ends background work. Unsettled runs are left to the next process.
func (r *Runs) Close(ctx context.Context) error {
	r.end()
	return wait.For(ctx, r.after.Wait)
}

// lockPatience is how long a lock is waited for whose agent may be busy.
const lockPatience = 50 * time.Millisecond

// Resettle retries the compensated runs that no goroutine is settling. When it returns,
// their agents are locked. Runs with busy agents are retried in a later round.
func (r *Runs) Resettle(now time.Time) error {
	runner, ok := r.opt.Adapter.(backend.AgentRunner)
	if !ok || r.opt.Dir == "" {
		return nil
	}
	entries, err := r.journal.unsettled()
	for _, e := range entries {
		if r.life.Err() != nil {
			return err
		}
		left, mine := r.journal.reclaim(e.Decision, now)
		if !mine {
			continue
		}
		if left, err := r.resettle(runner, e, left); err != nil {
			r.journal.release(e.Decision, left, false, now)
			r.opt.Log.Warn("compensation of a run is incomplete; it will be retried", "backend", r.opt.Name, "decision", e.Decision, "error", err)
		}
	}
	return err
}

// resettle settles a run in the background, from its state c in this process or, if c is
// nil, from its journal entry.
func (r *Runs) resettle(runner backend.AgentRunner, e *journalEntry, c *CompensatedRun) (*CompensatedRun, error) {
	if c == nil {
		call := &gate.Call{
			Backend: r.opt.Backend.Backend, Known: true, Route: memproxy.Route{ID: e.Route, Kind: memproxy.Run}, Credentials: memproxy.Credentials{Session: e.Session},
			Request: memproxy.Request{Method: e.Method, EscapedPath: e.Path},
		}
		c = &CompensatedRun{r: r, a: r.opt.Gate.Agents().AdmissionFor(call, e.Principal, e.Decision), ruled: map[string]*gate.Admission{}}
	}
	now := r.opt.Clock()
	if c.resumed.IsZero() {
		c.resumed = now
	}
	// Give up only after trying: the process may have been down for days, or the clock
	// may have been changed.
	if now.Sub(e.Begun) > maxUnsettled && now.Sub(c.resumed) > minUnsettled {
		r.opt.Gate.Agents().RecordUnsettled(r.life, c.a, true, errUnsettled)
		return nil, r.journal.remove(e.Decision)
	}
	if c.diff == nil {
		var err error
		if c.diff, err = runner.RestoreRunDiff(e.Baseline); err != nil {
			return c, err
		}
	}
	ctx, cancel := context.WithTimeout(r.life, lockPatience)
	defer cancel()
	if err := c.lock(ctx, c.diff.Agents()); err != nil {
		return c, err
	}
	c.SettleLater()
	return c, nil
}

// send makes a side request with the caller's credentials, or with the backend's if
// caller is nil.
func (r *Runs) send(ctx context.Context, q memproxy.Request, body []byte, caller http.Header) (memproxy.Reply, error) {
	return r.opt.Side.SendAs(ctx, q, body, memproxy.Header(caller), q.Header, r.opt.MaxAnswer)
}

// ask sends a request without a body, with the deadline of side requests.
func (r *Runs) ask(ctx context.Context, q memproxy.Request, caller http.Header) (memproxy.Reply, error) {
	ctx, cancel := r.opt.Within(ctx)
	defer cancel()
	return r.send(ctx, q, nil, caller)
}

// Once is one round of the background job for unfinished runs. A run that cannot be
// settled does not delay the others.
func (r *Runs) Once(ctx context.Context, now time.Time) error {
	return errors.Join(r.Resettle(now), r.declineInterrupted(ctx, now))
}
