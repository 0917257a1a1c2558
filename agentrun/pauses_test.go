// When a turn is due is seen inside of the package alone, so these are in the slow ring, where the
// package is compiled once more for them.

//go:build slow

package agentrun

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

func runsIn(dir string, now *time.Time) *Runs {
	return New(Options{Dir: dir, PauseLimit: time.Minute, RunTimeout: time.Hour, Runtime: frontend.Runtime{Clock: func() time.Time { return *now }, Log: slog.New(slog.DiscardHandler)}})
}

// keysOf returns the keys of the turns that are due and not in progress.
func keysOf(t *testing.T, r *Runs, now time.Time) (keys []string) {
	t.Helper()
	for _, key := range must.Get(r.turns.due(now))(t) {
		if unlock := r.tryLock(t.Context(), 0, "turn "+key, Exclusive); unlock != nil {
			unlock()
			keys = append(keys, key)
		}
	}
	return keys
}

func opened(t *testing.T, r *Runs, key string) (done func(whole bool)) {
	t.Helper()
	unlock := must.Get(r.Locks.Lock(t.Context(), Exclusive, "turn "+key))(t)
	_, end := r.TrackTurn(t.Context(), key, &memproxy.Principal{ID: "agent:dev", Tenant: "acme"}, false)
	return func(whole bool) { end(whole, false); unlock() }
}

// unreachable is a backend whose agents cannot be examined. It records who was to be.
type unreachable struct {
	backend.Adapter
	backend.AgentRunner
	examined *[]string
}

func (u unreachable) Recover(key string) (memproxy.Request, memproxy.Turn, error) {
	*u.examined = append(*u.examined, key)
	return memproxy.Request{}, nil, errors.New("unreachable")
}

func examined(t *testing.T, r *Runs, now time.Time) (keys []string) {
	t.Helper()
	r.opt.Backend.Adapter = unreachable{examined: &keys}
	expect.Error(t, r.declineInterrupted(t.Context(), now))
	return keys
}

// Proves EDGE-1: a turn is examined an interval after it was interrupted, but neither
// while it is in progress nor after it ended. The next process examines it at once and
// knows its start. A later turn of the same key replaces it.
func TestInterruptedTurnsAreDue(t *testing.T) {
	now := time.Unix(1e9, 0)
	dir := t.TempDir()
	r := runsIn(dir, &now)
	whole, broken, healed := opened(t, r, "agent-whole"), opened(t, r, "agent-broken"), opened(t, r, "conv-healed")
	opened(t, r, "agent-under-way")
	whole(true)
	broken(false)
	healed(false)
	expect.Len(t, keysOf(t, r, now.Add(time.Minute-1)), 0, "before the interval is over")
	if got := keysOf(t, r, now.Add(time.Minute)); fmt.Sprint(got) != "[agent-broken conv-healed]" {
		t.Errorf("after it: %q", got)
	}
	again := opened(t, r, "conv-healed")
	if got := keysOf(t, r, now.Add(time.Minute)); fmt.Sprint(got) != "[agent-broken]" {
		t.Errorf("with a later turn under way: %q", got)
	}
	again(true)
	if got := keysOf(t, r, now.Add(time.Hour)); fmt.Sprint(got) != "[agent-broken]" {
		t.Errorf("when that ended: %q", got)
	}
	next := runsIn(dir, &now)
	expect.List(t, must.Get(next.turns.due(now))(t), []string{"agent-broken", "agent-under-way"})
	expect.Equal(t, must.Get(os.Stat(next.turns.path("agent-broken")))(t).ModTime().Equal(now), true, "when it began")
	later := opened(t, next, "agent-broken")
	if got := examined(t, next, now); fmt.Sprint(got) != "[agent-under-way]" {
		t.Errorf("with a later turn under way: %q", got)
	}
	later(false)
	if got := keysOf(t, next, now.Add(time.Second)); len(got) != 0 {
		t.Errorf("after a look: %q", got)
	}
	if got := keysOf(t, next, now.Add(time.Minute)); fmt.Sprint(got) != "[agent-broken agent-under-way]" {
		t.Errorf("a minute after a look: %q", got)
	}
}

// meanwhile is a backend at which something happens while an agent is examined.
type meanwhile struct {
	unreachable
	happens func()
}

func (m meanwhile) Recover(key string) (memproxy.Request, memproxy.Turn, error) {
	m.happens()
	return m.unreachable.Recover(key)
}

// Proves EDGE-1: a turn that ends while a round examines others is not examined in that
// round: if it was interrupted, its caller has the usual time to continue it.
func TestTurnsThatEndDuringARoundAreNotExamined(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	dir := t.TempDir()
	opened(t, runsIn(dir, &now), "agent-a") // of a process that was killed
	r := runsIn(dir, &now)
	interrupted, whole := opened(t, r, "agent-b"), opened(t, r, "agent-c")
	var keys []string
	r.opt.Backend.Adapter = meanwhile{unreachable{examined: &keys}, func() { interrupted(false); whole(true) }}
	expect.Error(t, r.declineInterrupted(t.Context(), now))
	expect.List(t, keys, []string{"agent-a"})
	expect.Len(t, r.turns.interrupted, 2)
	expect.List(t, keysOf(t, r, now.Add(time.Second)), nil)
	expect.List(t, keysOf(t, r, now.Add(time.Minute)), []string{"agent-a", "agent-b"})
}

// Proves EDGE-16: a round examines a bounded number of turns, longest unexamined first;
// the number of tracked turns is bounded; a key that cannot be an agent's creates no
// file.
func TestTurnsAreBounded(t *testing.T) {
	ring.Long(t, "one directory read after another")
	now := time.Unix(1e9, 0)
	r := runsIn(ring.Dir(t), &now)
	var ends []func(whole bool)
	for i := range maxTurns + 10 {
		ends = append(ends, opened(t, r, fmt.Sprintf("agent-%06d", maxTurns+10-i)))
		now = now.Add(time.Millisecond)
		if i < maxTurns-2 {
			ends[i](false)
		}
	}
	for _, end := range ends[maxTurns-2:] { // begun while there was room
		end(false)
	}
	expect.Len(t, must.Get(os.ReadDir(r.turns.dir))(t), maxTurns)
	opened(t, r, "agent-000011")(false)
	expect.Len(t, r.turns.interrupted, maxTurns, "a later turn of an agent takes the place of the one that was interrupted")
	now = now.Add(time.Hour)
	seen := map[string]bool{}
	for range maxTurns / maxLooks {
		keys := examined(t, r, now)
		expect.Len(t, keys, maxLooks)
		for _, key := range keys {
			seen[key] = true
		}
	}
	expect.Len(t, seen, maxTurns, maxTurns/maxLooks)
	now, r = time.Unix(1e9, 0), runsIn(t.TempDir(), &now)
	for _, key := range []string{"", ".", "..", strings.Repeat("x", 300)} {
		opened(t, r, key)(false)
	}
	opened(t, r, "../up/and\x00out")(false)
	if got := keysOf(t, r, now.Add(time.Hour)); fmt.Sprintf("%q", got) != `["../up/and\x00out"]` {
		t.Errorf("%q", got)
	}
}
