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
// the files the next process knows which agents may be paused.
type turns struct {
	dir string // "" if turns are not tracked

	mu    sync.Mutex
	known map[string]knownTurn
}

// knownTurn is a turn of this process.
type knownTurn struct {
	// next is when the interrupted turn is examined again; zero while it is in progress.
	next time.Time
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
	caller := by.Tenant + "\x00" + by.ID
	if path == "" {
		return false, func(bool, bool) {}
	}
	before, ok := t.begin(key)
	if !ok {
		return false, func(bool, bool) {}
	}
	if same = before == caller; left && !same {
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
		r.opt.Log.WarnContext(ctx, "a turn could not be saved; if it is interrupted, its agent stays paused until the next turn", "backend", r.opt.Backend.Name, "error", err)
	}
	return same, func(whole, spent bool) {
		if whole || err != nil {
			r.forget(key)
			return
		}
		if spent {
			caller = ""
		}
		t.end(key, knownTurn{r.opt.Clock().Add(r.opt.PauseLimit), caller})
	}
}

// begin reports whether there is room for a turn, and the caller of the interrupted turn
// that it replaces.
func (t *turns) begin(key string) (before string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before = t.known[key].caller
	if _, known := t.known[key]; !known && len(t.known) >= maxTurns {
		return "", false
	}
	t.known[key] = knownTurn{}
	return before, true
}

// inProgress reports whether a turn runs in this process; t.mu is held.
func (t *turns) inProgress(key string) bool {
	k, known := t.known[key]
	return known && k.next.IsZero()
}

// end records that a turn is no longer in progress. One that is not examined again is
// forgotten.
func (t *turns) end(key string, k knownTurn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[key] = k; k.next.IsZero() {
		delete(t.known, key)
	}
}

// postpone sets when an interrupted turn is examined again. It does nothing and reports
// false if a later turn of the same key is in progress.
func (t *turns) postpone(key string, next time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inProgress(key) {
		return false
	}
	t.known[key] = knownTurn{next, t.known[key].caller}
	return true
}

// forget stops tracking a turn. If its file remains, its agent is examined once more.
func (r *Runs) forget(key string) {
	_ = os.Remove(r.turns.path(key))
	r.turns.end(key, knownTurn{})
}

type interruptedTurn struct {
	key         string
	begun, next time.Time
}

// due returns the turns to examine now, those not examined for the longest time first,
// and at most maxLooks, so that the backend is not flooded.
func (t *turns) due(now time.Time) ([]interruptedTurn, error) {
	files, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []interruptedTurn
	for _, f := range files {
		key, bad := url.PathUnescape(f.Name())
		info, gone := f.Info()
		if bad != nil || gone != nil || t.inProgress(key) || now.Before(t.known[key].next) {
			continue
		}
		out = append(out, interruptedTurn{key, info.ModTime(), t.known[key].next})
	}
	slices.SortStableFunc(out, func(a, b interruptedTurn) int { return a.next.Compare(b.next) })
	return out[:min(len(out), maxLooks)], err
}

// declineInterrupted declines the pending calls of interrupted turns. A turn without
// pending calls is examined until the time limit of a run, at growing intervals, because
// its model may still be generating; one that cannot be examined, for a day.
func (r *Runs) declineInterrupted(ctx context.Context, now time.Time) error {
	runner, ok := r.opt.Backend.Adapter.(gate.AgentRunner)
	if !ok || r.turns.dir == "" {
		return nil
	}
	left, err := r.turns.due(now)
	for _, turn := range left {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		over, failed := r.declinePending(ctx, runner, turn.key)
		age, most := now.Sub(turn.begun), r.opt.RunTimeout
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("backend %s: declining a pending approval request failed: %w", r.opt.Backend.Name, failed))
			most = max(most, maxUnsettled)
		}
		if !over && age <= most {
			r.turns.postpone(turn.key, now.Add(max(r.opt.PauseLimit, age/8)))
		} else if r.turns.postpone(turn.key, now) {
			r.forget(turn.key)
		}
	}
	return err
}

// declinePending declines the pending calls of a turn until the run ends. over reports that
// no call is pending, or none that the gate decides on.
func (r *Runs) declinePending(ctx context.Context, runner gate.AgentRunner, key string) (over bool, err error) {
	req, turn, err := runner.Recover(key)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.opt.RunTimeout)
	defer cancel()
	unlock := r.tryLock(ctx, "turn "+key, Exclusive)
	if unlock == nil {
		return false, nil // the turn in progress will answer the pending calls
	}
	defer unlock()
	err = gate.Prepare(turn, gate.MaxPrepare, func(q memproxy.Request) (memproxy.Reply, error) { return r.ask(ctx, q, nil) })
	switch {
	case errors.Is(err, memproxy.ErrUngated):
		return true, nil
	case err != nil:
		return false, err
	}
	if agent := turn.Agent(); agent != "" {
		if unlock = r.tryLock(ctx, "agent "+agent, Shared); unlock == nil {
			return false, nil
		}
		defer unlock()
	}
	if len(turn.PendingCalls()) == 0 {
		return false, nil
	}
	route, known := r.opt.Backend.Adapter.Route(memproxy.Request{Method: req.Method, EscapedPath: req.EscapedPath})
	a := r.opt.Gate.Agents().AdmissionFor(&gate.Call{Backend: r.opt.Backend, Request: req, Route: route, Known: known}, reconciler(), "")
	if a.Shadow() {
		return false, nil
	}
	r.opt.Log.WarnContext(ctx, "declining the calls of an interrupted turn", "backend", r.opt.Backend.Name, "decision", a.Decision.ID)
	for range recoveryRequests {
		for _, call := range turn.PendingCalls() {
			declined := r.opt.Gate.Agents().Decline(ctx, a, call, DeclinedResult)
			frontend.LogDecision(ctx, r.opt.Log, r.opt.Backend.Name, declined)
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

// tryLock acquires a lock, or returns nil after lockPatience.
func (r *Runs) tryLock(ctx context.Context, key string, share int64) (unlock func()) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	unlock, _ = r.opt.Locks.Lock(ctx, key, share)
	return unlock
}
