package integrity_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/screen/hunt"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/upkeep"
)

// fakeTurns are turns of agents that the test ends.
type fakeTurns struct{ underway bool }

func (f *fakeTurns) TurnsBegun() func() bool    { return func() bool { return f.underway } }
func (f *fakeTurns) LongestTurn() time.Duration { return time.Hour }

// rig is a Checker on a ledger and an audit log of its own, by default for a backend whose
// agents write blocks.
type rig struct {
	*integrity.Checker
	now time.Time
}

func newRig(t *testing.T, turns integrity.Turns) *rig {
	dir := ring.Dir(t)
	l := must.Get(ledger.Open(ledger.Options{Path: filepath.Join(dir, "ledger.db"), Vault: ledgertest.Vault(t)}))(t)
	t.Cleanup(func() { _ = l.Close() })
	log := must.Get(audit.Open(audit.Options{Dir: filepath.Join(dir, "audit"), Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), Origin: "q", Reserve: 1 << 16}))(t)
	t.Cleanup(func() { _ = log.Close(context.Background()) })
	cfg := &config.Config{Backends: []config.Backend{{Name: "letta", Kind: "letta"}}}
	cfg.Memories.Seal, cfg.Memories.Sweep = new(bool), new(config.Duration)
	r := &rig{now: time.Unix(1_800_000_000, 0)}
	r.Checker = integrity.New(integrity.Options{
		Config: cfg, Ledger: l, Audit: log, AuditDir: filepath.Join(dir, "audit"), Log: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return r.now },
		NewID: func() string { return "id" },
		Traits: func(_ config.Backend, id string) integrity.Traits {
			return integrity.Traits{Listed: true, AgentsAdd: id != "tool-1", AgentsEdit: true}
		},
		Callers: func() memproxy.CallerNames { return memproxy.CallerNames{OpenTenants: true} },
		Turns:   func(string) integrity.Turns { return turns },
		Pace:    integrity.Pace{Rate: 1e9, Slow: 1e9},
	})
	return r
}

// check runs the job that makes checks. It returns whether checks still wait.
func (r *rig) check(ctx context.Context, now time.Time) (waits bool, err error) {
	jobs := r.Jobs(upkeep.NewSignal())
	err = jobs[slices.IndexFunc(jobs, func(j upkeep.Job) bool { return j.Name == "sweeps" })].Once(ctx, now)
	if _, due := errors.AsType[upkeep.Due](err); due {
		return true, nil
	}
	return false, err
}

func recorded(id string) memproxy.Ownership {
	return memproxy.Ownership{Backend: "letta", Kind: memproxy.TargetMemory, ID: id, SHA256: "aa"}
}

// Proves EDGE-4: a check waits for turns in progress and for their writes to be
// recorded. If other processes may run agents, it waits for the longest duration of a
// turn, and no longer.
func TestChecksWaitForTurns(t *testing.T) {
	const settle = 5 * time.Second // for the ledger to record what a turn wrote
	turns := &fakeTurns{underway: true}
	made := func(c *rig, after time.Duration) bool {
		waits := must.Get(c.check(t.Context(), c.now.Add(after)))(t)
		row := recorded("block-1")
		made := must.Get(c.Ledger.Lookup(t.Context(), row.Key()))(t).Of(row.Key()).Status.Unverified == memproxy.IntegrityMismatch
		expect.Equal(t, waits, !made, after)
		return made
	}

	c := newRig(t, turns)
	must.Get(c.Ledger.Bind(t.Context(), recorded("block-1")))(t)
	expect.Equal(t, c.QueueCheck(recorded("block-1")), true, "it does not wait")
	expect.Equal(t, c.QueueCheck(recorded("tool-1")), false, "it waits for agents, which write no such objects")
	expect.Equal(t, made(c, time.Minute), false, "it does not wait for the turn")
	turns.underway = false
	if made(c, 2*time.Minute) || made(c, 2*time.Minute+settle-1) || !made(c, 2*time.Minute+settle) {
		t.Error("it does not wait for what the turn wrote, and no longer")
	}

	c = newRig(t, turns)
	must.Get(c.Ledger.Bind(t.Context(), recorded("block-1")))(t)
	c.Config.Ledger.URL = config.NewSecret("postgres://ledger")
	c.QueueCheck(recorded("block-1"))
	if made(c, time.Minute) || made(c, time.Hour-1) || made(c, time.Hour) || !made(c, time.Hour+settle) {
		t.Error("it does not wait for as long as a turn of another process may take, and no longer")
	}

	expect.Equal(t, newRig(t, nil).QueueCheck(recorded("block-1")), false, "it waits where no turn can be waited for")
}

// pages is a backend with two pages, which calls before for each.
type pages struct{ before func(cursor string) }

func (p pages) Page(_ context.Context, cursor string) ([]hunt.Item, string, error) {
	p.before(cursor)
	if cursor == "" {
		return nil, "2", nil
	}
	return nil, "", nil
}

// Proves EDGE-4: memories that reads find suspicious during a sweep are checked between
// its pages.
func TestChecksAreMadeDuringASweep(t *testing.T) {
	c := newRig(t, &fakeTurns{})
	n := 0
	c.Open = func(context.Context, config.Backend, []memproxy.Scope) (backend.Locator, hunt.Pager, error) {
		return nil, pages{func(cursor string) {
			n++
			if cursor == "" {
				c.QueueCheck(recorded("block-1"))
			} else {
				c.now = c.now.Add(5 * time.Second)
			}
		}}, nil
	}
	must.Get(c.Sweep(t.Context(), review.SweepRequest{}))(t)
	must.Equal(t, n, 2)
	expect.Equal(t, must.Get(c.check(t.Context(), c.now))(t), false, "the check still waits")
}

// Proves EDGE-4: the number of waiting checks is bounded.
func TestChecksAreBounded(t *testing.T) {
	c := newRig(t, &fakeTurns{})
	for i := range 1024 + 1 {
		c.QueueCheck(recorded(fmt.Sprintf("block-%d", i)))
	}
	must.Do(t, c.Ledger.Close()) // so that a check fails
	must.Get(c.check(t.Context(), c.now))(t)
	_, err := c.check(t.Context(), c.now.Add(time.Minute))
	expect.Text(t, fmt.Sprint(err)).Times(1024, "was not reported")
}
