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
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/wait"
)

// Options say whose runs they are. All but Dir and Steps are required.
type Options struct {
	Gate    *gate.Gate
	Backend gate.Backend
	// Side sends memproxy's own requests to the backend.
	Side *face.Side
	// MaxAnswer bounds their answers, in bytes; RunTimeout how long a run may last.
	MaxAnswer  int64
	RunTimeout time.Duration
	// Locks are held while a run may change its agents.
	Locks *Locks
	// Dir is the directory of runs that are not over, for the process that comes
	// after this one. It holds memories. "": runs are not compensated, and what waits
	// in turns that broke off is left to the agent's next turn.
	Dir string
	// Every is how long a pause may wait until it is declined. Zero: for ever.
	Every time.Duration

	Clock func() time.Time
	After func(time.Duration) <-chan time.Time
	// Steps is notified of points at which a crash must lose nothing. Nil: none.
	Steps memproxy.Stepper
	Log   *slog.Logger
	// Observe measures what is undone.
	Observe func(ctx context.Context, route, kind, verdict string, status int, d time.Duration)
}

// Runs are the runs of one backend's agents. It is safe for concurrent use.
type Runs struct {
	opt       Options
	journal   journal
	unsettled unsettled
	turns     turns

	life  context.Context // of what goes on in the background
	end   context.CancelFunc
	after sync.WaitGroup
}

// New returns the runs of a backend.
func New(opt Options) *Runs {
	r := &Runs{opt: opt, journal: journal{opt.Dir}, turns: turns{open: map[string]struct{}{}, next: map[string]time.Time{}}}
	if opt.Dir != "" && opt.Every > 0 {
		r.turns.dir = filepath.Join(opt.Dir, "turns")
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// TurnsBegun returns a function that reports whether a turn that is under way now
// still is, or what it changed is not recorded yet.
func (r *Runs) TurnsBegun() (underway func() bool) { return r.opt.Locks.Begun() }

// LongestTurn is how long a turn lasts at most that is not streamed, and how long
// one that is streamed may be silent.
func (r *Runs) LongestTurn() time.Duration { return r.opt.RunTimeout }

// Close ends what goes on in the background. What is not settled by then is
// left to the next process.
func (r *Runs) Close(ctx context.Context) error {
	r.end()
	return wait.For(ctx, r.after.Wait)
}

// patience is how long an agent that may be busy is waited for.
const patience = 50 * time.Millisecond

// Resettle takes up the compensated runs that nobody settles. Their agents are
// locked when it returns, unless they are busy: those have their turn later.
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
			r.unsettled.put(e.Decision, left)
			r.opt.Log.Warn("a run is not settled yet", "backend", r.opt.Backend.Name, "decision", e.Decision, "error", err)
		}
	}
	return err
}

// resettle settles a run that was left, as this process or an earlier one left
// it, in the background.
func (r *Runs) resettle(compensator gate.Compensator, e *journalEntry, c *Watched) (*Watched, error) {
	if c == nil {
		call := &gate.Call{
			Backend: r.opt.Backend, Known: true, Route: memproxy.Route{ID: e.Route, Kind: memproxy.Run}, Session: e.Session,
			Request: memproxy.Request{Method: e.Method, EscapedPath: e.Path},
		}
		c = &Watched{r: r, held: Held{Locks: r.opt.Locks}, a: r.opt.Gate.Agents().Assume(call, e.Principal, e.Decision), ruled: map[string]*gate.Admission{}}
	}
	now := r.opt.Clock()
	if c.taken.IsZero() {
		c.taken = now
	}
	// Not before it was tried: the process may have been away for days, or its clock set.
	if now.Sub(e.Begun) > maxUnsettled && now.Sub(c.taken) > minUnsettled {
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

// send makes a request of memproxy's own, in the name of a caller where there is
// one: with its credentials, or with the backend's.
func (r *Runs) send(ctx context.Context, q memproxy.Request, body []byte, caller http.Header) (memproxy.Reply, error) {
	return r.opt.Side.As(ctx, q, body, memproxy.Header(caller), q.Header, r.opt.MaxAnswer)
}

// ask is send for a question, with the deadline of one.
func (r *Runs) ask(ctx context.Context, q memproxy.Request, caller http.Header) (memproxy.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, gate.DefaultFetchTimeout)
	defer cancel()
	return r.send(ctx, q, nil, caller)
}

// Once is a round of the job that looks after runs which are not over. It goes on
// with the others where one cannot be settled yet.
func (r *Runs) Once(ctx context.Context, now time.Time) error {
	return errors.Join(r.Resettle(now), r.freeAll(ctx, now))
}
