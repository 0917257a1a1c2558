package agentrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
)

const (
	// recoveryRequests is the maximum number of requests that decline one pause: the
	// model may call again.
	recoveryRequests = 20
	// maxTurns is the maximum number of tracked turns, and maxLooks how many of them one
	// round examines. The agent of an untracked turn waits for its next turn.
	maxTurns, maxLooks = 4096, 64
	// DeclinedResult is the tool result that the agent reads for a declined call.
	DeclinedResult = "the turn broke off, and this call may have been made or not: read the memory before calling again"
)

// ErrRequests ends a turn that exceeds its number of requests.
var ErrRequests = errors.New("the run has too many requests")

// reconciler is the principal that declines pauses.
func reconciler() memproxy.Principal {
	return memproxy.Principal{ID: "system:reconciler", Kind: memproxy.KindService, Trust: memproxy.TrustSystem, Method: "internal"}
}

// turns are the turns in progress and those that were interrupted, by the key of the agent
// or conversation. Each has a file, whose modification time is the start of the turn. From
// the files the next process knows which agents may be paused. Who tracks a turn, or examines
// it, has the lock of its key.
type turns struct {
	dir string // "" if turns are not tracked

	mu          sync.Mutex
	interrupted map[string]interruptedTurn // that this process knows of
}

type interruptedTurn struct {
	next time.Time // when it is examined again
	// caller is the tenant and principal whose later turn may make the pending calls; "" if
	// no turn may.
	caller string
}

// path returns the file of a turn. It is "" if the turn is not tracked: turns are not
// tracked at all, the key is too long, or it consists of dots.
func (t *turns) path(key string) string {
	name := url.PathEscape(key)
	if t.dir == "" || len(name) > 200 || strings.Trim(name, ".") == "" {
		return ""
	}
	return filepath.Join(t.dir, name)
}

// TrackTurn tracks a turn that starts, and replaces an earlier one of the same key; a turn
// that cannot be tracked proceeds. The caller holds the lock of the key and calls done before
// releasing it: whole=false if the turn was interrupted, so that its agent may be paused,
// and spent=true if no later turn may make its pending calls, because they may have been
// made or were cancelled. same reports that the earlier turn was interrupted in this process
// and had the same caller, who may continue its calls. left means that it left pending
// calls: if it had another caller, no later turn may make the calls that this turn leaves.
func (r *Runs) TrackTurn(ctx context.Context, key string, by *memproxy.Principal, left bool) (same bool, done func(whole, spent bool)) {
	t := &r.turns
	path := t.path(key)
	before, ok := t.take(key)
	if path == "" || !ok {
		return false, func(bool, bool) {}
	}
	caller := by.Tenant + "\x00" + by.ID
	if same = before.caller == caller; left && !same {
		caller = ""
	}
	now := r.opt.Clock()
	err := os.MkdirAll(t.dir, 0o700)
	if err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err == nil {
		err = os.Chtimes(path, now, now)
	}
	if err != nil {
		r.opt.Log.WarnContext(ctx, "a turn could not be saved; if it is interrupted, its agent stays paused until the next turn", "backend", r.opt.Name, "error", err)
	}
	return same, func(whole, spent bool) {
		if _, room := t.take(key); whole || err != nil || !room {
			_ = os.Remove(path) // if the file remains, the agent is examined once more
			return
		}
		if spent {
			caller = ""
		}
		t.keep(key, interruptedTurn{r.opt.Clock().Add(r.opt.PauseLimit), caller})
	}
}

// take stops tracking an interrupted turn, and reports whether there is room for another one.
func (t *turns) take(key string) (was interruptedTurn, room bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.interrupted[key]
	delete(t.interrupted, key)
	return was, known || len(t.interrupted) < maxTurns
}

func (t *turns) keep(key string, turn interruptedTurn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupted[key] = turn
}

// due returns the keys of the turns to examine now, those not examined for the longest time
// first, also those in progress.
func (t *turns) due(now time.Time) ([]string, error) {
	files, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []string
	for _, f := range files {
		if key, bad := url.PathUnescape(f.Name()); bad == nil && !now.Before(t.interrupted[key].next) {
			keys = append(keys, key)
		}
	}
	slices.SortStableFunc(keys, func(a, b string) int { return t.interrupted[a].next.Compare(t.interrupted[b].next) })
	return keys, err
}

// declineInterrupted declines the pending calls of interrupted turns. It examines at most
// maxLooks, so that the backend is not flooded.
func (r *Runs) declineInterrupted(ctx context.Context, now time.Time) error {
	runner, ok := r.opt.Adapter.(backend.AgentRunner)
	if !ok || r.turns.dir == "" {
		return nil
	}
	due, err := r.turns.due(now)
	looks := 0
	for _, key := range due {
		if ctx.Err() != nil || looks == maxLooks {
			return errors.Join(err, ctx.Err())
		}
		unlock := r.tryLock(ctx, 0, "turn "+key, Exclusive)
		if unlock == nil {
			continue // the turn in progress will answer the pending calls
		}
		err = errors.Join(err, r.examine(ctx, runner, key, now))
		unlock()
		looks++
	}
	return err
}

// examine declines the pending calls of an interrupted turn, unless it has ended or a later one
// was interrupted since it was due. A turn without pending calls is examined until the time
// limit of a run, at growing intervals, because its model may still be generating; one that
// cannot be examined, for a day.
func (r *Runs) examine(ctx context.Context, runner backend.AgentRunner, key string, now time.Time) error {
	path := r.turns.path(key)
	was, _ := r.turns.take(key)
	file, ended := os.Stat(path)
	if ended != nil {
		return nil
	}
	if now.Before(was.next) {
		r.turns.keep(key, was)
		return nil
	}
	over, err := r.declinePending(ctx, runner, key)
	age, most := now.Sub(file.ModTime()), r.opt.RunTimeout
	if err != nil {
		err = fmt.Errorf("backend %s: declining a pending approval request failed: %w", r.opt.Name, err)
		most = max(most, maxUnsettled)
	}
	if !over && age <= most {
		r.turns.keep(key, interruptedTurn{now.Add(max(r.opt.PauseLimit, age/8)), was.caller})
	} else {
		_ = os.Remove(path)
	}
	return err
}

// declinePending declines the pending calls of a turn until the run ends. over reports that
// no call is pending, or none that the gate decides on.
func (r *Runs) declinePending(ctx context.Context, runner backend.AgentRunner, key string) (over bool, err error) {
	req, turn, err := runner.Recover(key)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.opt.RunTimeout)
	defer cancel()
	err = backend.Prepare(turn, backend.MaxPrepare, func(q memproxy.Request) (memproxy.Reply, error) { return r.ask(ctx, q, nil) })
	switch {
	case errors.Is(err, memproxy.ErrUngated):
		return true, nil
	case err != nil:
		return false, err
	}
	if agent := turn.Agent(); agent != "" {
		unlock := r.tryLock(ctx, lockPatience, "agent "+agent, Shared)
		if unlock == nil {
			return false, nil
		}
		defer unlock()
	}
	if !turn.Paused() {
		return false, nil
	}
	route, known := r.opt.Adapter.Route(memproxy.Request{Method: req.Method, EscapedPath: req.EscapedPath})
	a := r.opt.Gate.Agents().AdmissionFor(&gate.Call{Backend: r.opt.Backend.Backend, Request: req, Route: route, Known: known}, reconciler(), "")
	if a.Shadow() {
		return false, nil
	}
	r.opt.Log.WarnContext(ctx, "declining the calls of an interrupted turn", "backend", r.opt.Name, "decision", a.Decision.ID)
	for range recoveryRequests {
		for _, call := range turn.PendingCalls() {
			declined := r.opt.Gate.Agents().Decline(ctx, a, call, DeclinedResult)
			frontend.LogDecision(ctx, r.opt.Log, r.opt.Name, declined)
			turn.Rule(call.ID, declined.Decision)
		}
		reply, err := r.send(ctx, req, turn.Next(), nil)
		if err != nil {
			return false, err
		}
		if reply.Status != http.StatusOK {
			return false, fmt.Errorf("declining an approval request returned status %d", reply.Status)
		}
		if err := turn.ReadAnswer(reply.Body); err != nil {
			return false, err
		}
		if !turn.Paused() {
			return true, nil
		}
	}
	return false, ErrRequests
}

// tryLock acquires a lock, or returns nil after the timeout.
func (r *Runs) tryLock(ctx context.Context, timeout time.Duration, key string, alone bool) (unlock func()) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	unlock, _ = r.Locks.Lock(ctx, alone, key)
	return unlock
}
