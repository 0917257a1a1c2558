package agentrun

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/wait"
)

// Options of the runs of one backend. All but Dir and Steps are required.
type Options struct {
	Gate    *gate.Gate
	Backend gate.Backend
	// Side sends memproxy's own requests to the backend.
	Side *frontend.Side
	// MaxAnswer bounds their responses, in bytes; RunTimeout bounds a run.
	MaxAnswer  int64
	RunTimeout time.Duration
	// Locks are held while a run may change its agents.
	Locks *Locks
	// Dir is the directory of unfinished runs, read by the next process. It contains
	// memories. If empty, runs are not compensated, and pending calls of interrupted
	// turns wait for the agent's next turn.
	Dir string
	// Every is how long a pause may last before it is declined. Zero: for ever.
	Every time.Duration

	Clock func() time.Time
	After func(time.Duration) <-chan time.Time
	// Steps is notified of the points at which a crash must lose nothing. Nil: none.
	Steps memproxy.Stepper
	Log   *slog.Logger
	// Observe records metrics of undo requests.
	Observe func(ctx context.Context, route, kind, verdict string, status int, d time.Duration)
}

// Runs are the runs of one backend's agents. They are safe for concurrent use.
type Runs struct {
	opt       Options
	journal   journal
	unsettled unsettled
	turns     turns

	life  context.Context // of background work
	end   context.CancelFunc
	after sync.WaitGroup
}

// New returns the runs of a backend.
func New(opt Options) *Runs {
	r := &Runs{opt: opt, journal: journal{opt.Dir}, turns: turns{next: map[string]time.Time{}}}
	if opt.Dir != "" && opt.Every > 0 {
		r.turns.dir = filepath.Join(opt.Dir, "turns")
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// TurnsBegun returns a function that reports whether a turn that is in progress now
// still is, or its changes are not recorded yet.
func (r *Runs) TurnsBegun() (underway func() bool) { return r.opt.Locks.Begun() }

// LongestTurn is the time limit of a turn that is not streamed, and the longest silence
// of one that is.
func (r *Runs) LongestTurn() time.Duration { return r.opt.RunTimeout }

// Close ends background work. Unsettled runs are left to the next process.
func (r *Runs) Close(ctx context.Context) error {
	r.end()
	return wait.For(ctx, r.after.Wait)
}

// patience bounds the wait for an agent that may be busy.
const patience = 50 * time.Millisecond

// Resettle retries the compensated runs that no goroutine settles. It returns with
// their agents locked; runs with busy agents are retried in a later round.
func (r *Runs) Resettle(now time.Time) error {
	compensator, ok := r.opt.Backend.Adapter.(gate.Compensator)
	if !ok || r.opt.Dir == "" {
		return nil
	}
	entries, err := r.journal.left()
	for _, e := range entries {
		if r.life.Err() != nil {
			return err
		}
		left, mine := r.unsettled.take(e.Decision, now)
		if !mine {
			continue
		}
		if left, err := r.resettle(compensator, e, left); err != nil {
			r.unsettled.leave(e.Decision, left, false, now)
			r.opt.Log.Warn("a run is not settled yet", "backend", r.opt.Backend.Name, "decision", e.Decision, "error", err)
		}
	}
	return err
}

// resettle settles a run in the background, from its state in this process (c), else
// from its journal entry.
func (r *Runs) resettle(compensator gate.Compensator, e *journalEntry, c *Watched) (*Watched, error) {
	if c == nil {
		call := &gate.Call{
			Backend: r.opt.Backend, Known: true, Route: memproxy.Route{ID: e.Route, Kind: memproxy.Run}, Session: e.Session,
			Request: memproxy.Request{Method: e.Method, EscapedPath: e.Path},
		}
		c = &Watched{r: r, held: Held{Locks: r.opt.Locks}, a: r.opt.Gate.Agents().Assume(call, e.Principal, e.Decision), ruled: map[string]*gate.Admission{}}
	}
	now := r.opt.Clock()
	if c.resumed.IsZero() {
		c.resumed = now
	}
	// Give up only after trying: the process may have been down for days, or its clock
	// set.
	if now.Sub(e.Begun) > maxUnsettled && now.Sub(c.resumed) > minUnsettled {
		r.opt.Gate.Agents().Unsettled(r.life, c.a, true, errUnsettled)
		r.unsettled.drop(e.Decision)
		return nil, r.journal.remove(e.Decision)
	}
	if c.watch == nil {
		var err error
		if c.watch, err = compensator.Rewatch(e.Picture); err != nil {
			return c, err
		}
	}
	ctx, cancel := context.WithTimeout(r.life, patience)
	defer cancel()
	if err := c.lock(ctx, c.watch.Agents()); err != nil {
		c.held.Unlock()
		return c, err
	}
	c.Later()
	return c, nil
}

// send makes a side request with the caller's credentials, or with the backend's if
// caller is nil.
func (r *Runs) send(ctx context.Context, q memproxy.Request, body []byte, caller http.Header) (memproxy.Reply, error) {
	return r.opt.Side.As(ctx, q, body, memproxy.Header(caller), q.Header, r.opt.MaxAnswer)
}

// ask sends a request without a body, with the deadline of side requests.
func (r *Runs) ask(ctx context.Context, q memproxy.Request, caller http.Header) (memproxy.Reply, error) {
	ctx, cancel := r.opt.Backend.Within(ctx)
	defer cancel()
	return r.send(ctx, q, nil, caller)
}

// Once is one round of the background job for unfinished runs. A run that cannot be
// settled does not hold up the others.
func (r *Runs) Once(ctx context.Context, now time.Time) error {
	return errors.Join(r.Resettle(now), r.freeAll(ctx, now))
}
