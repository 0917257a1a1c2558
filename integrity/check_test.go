package integrity

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/hunt"
)

// fakeTurns are turns of agents that the test ends.
type fakeTurns struct{ underway bool }

func (f *fakeTurns) TurnsBegun() func() bool    { return func() bool { return f.underway } }
func (f *fakeTurns) LongestTurn() time.Duration { return time.Hour }

// checkerOf is a Checker at a fixed time, for a backend whose agents write blocks.
func checkerOf(now time.Time, turns Turns) *Checker {
	return New(Options{
		Config: &config.Config{Backends: []config.Backend{{Name: "letta", Kind: "letta"}}},
		Clock:  func() time.Time { return now },
		Traits: func(_ config.Backend, id string) Traits {
			return Traits{Listed: true, AgentsAdd: id != "tool-1", AgentsEdit: true}
		},
		Turns: func(string) Turns { return turns },
	})
}

func recorded(id string) memproxy.Ownership {
	return memproxy.Ownership{Backend: "letta", Kind: memproxy.TargetMemory, ID: id, SHA256: "aa"}
}

// Proves EDGE-4: a check waits for turns in progress and for their writes to be
// recorded. If other processes may run agents, it waits for the longest duration of a
// turn, and no longer.
func TestChecksWaitForTurns(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	turns := &fakeTurns{underway: true}
	due := func(c *Checker, after time.Duration) int { due, _ := c.checks.due(now.Add(after)); return len(due) }

	c := checkerOf(now, turns)
	c.QueueCheck(recorded("block-1"))
	c.QueueCheck(recorded("tool-1"))
	must.Equal(t, len(c.checks.open), 1)
	expect.Equal(t, due(c, time.Minute), 0, "it does not wait for the turn")
	turns.underway = false
	if due(c, 2*time.Minute) != 0 || due(c, 2*time.Minute+checkSettle-1) != 0 || due(c, 2*time.Minute+checkSettle) != 1 || len(c.checks.open) != 0 {
		t.Error("it does not wait for what the turn wrote, and no longer")
	}

	c = checkerOf(now, turns)
	c.Config.Ledger.URL = config.NewSecret("postgres://ledger")
	c.QueueCheck(recorded("block-1"))
	if due(c, time.Hour-1) != 0 || due(c, time.Hour) != 0 || due(c, time.Hour+checkSettle) != 1 {
		t.Error("it does not wait for as long as a turn of another process may take, and no longer")
	}

	c = checkerOf(now, nil)
	if c.QueueCheck(recorded("block-1")); len(c.checks.open) != 0 {
		t.Error("it waits where no turn can be waited for")
	}
}

// pages is a backend with two pages.
type pages struct{}

func (pages) Page(_ context.Context, cursor string) ([]hunt.Item, string, error) {
	if cursor == "" {
		return nil, "2", nil
	}
	return nil, "", nil
}

// Proves EDGE-4: memories that reads find suspicious during a sweep are checked between
// its pages.
func TestChecksAreMadeDuringASweep(t *testing.T) {
	c := checkerOf(time.Unix(1_800_000_000, 0), &fakeTurns{})
	c.Open = func(context.Context, config.Backend, []memproxy.Scope) (gate.Locator, hunt.Pager, error) {
		return nil, pages{}, nil
	}
	looked := func() (n int) {
		for _, w := range c.checks.open {
			if !w.quiet.IsZero() {
				n++
			}
		}
		return n
	}
	n := 0
	must.Do(t, c.walk(t.Context(), c.Config.Backends[0], walk{rate: 1e9}, func(page) error {
		if n++; n == 1 {
			c.QueueCheck(recorded("block-1"))
		}
		if looked() != n-1 {
			t.Errorf("page %d: %d checks were made", n, looked())
		}
		return nil
	}))
	must.Equal(t, n, 2)
}

// Proves EDGE-4: the number of waiting checks is bounded.
func TestChecksAreBounded(t *testing.T) {
	c := checkerOf(time.Unix(1_800_000_000, 0), &fakeTurns{})
	for i := range maxChecks + 1 {
		c.QueueCheck(recorded(fmt.Sprintf("block-%d", i)))
	}
	expect.Equal(t, len(c.checks.open), maxChecks)
}
