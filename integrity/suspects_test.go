package integrity

import (
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
)

// fakeTurns are turns of agents that the test ends.
type fakeTurns struct{ underway bool }

func (f *fakeTurns) TurnsBegun() func() bool    { return func() bool { return f.underway } }
func (f *fakeTurns) LongestTurn() time.Duration { return time.Hour }

// custodianOf is one for a backend whose agents write blocks, at a fixed time.
func custodianOf(now time.Time, turns Turns) *Custodian {
	return New(Options{
		Config: &config.Config{Backends: []config.Backend{{Name: "letta", Kind: "letta"}}},
		Clock:  func() time.Time { return now },
		Traits: func(_ config.Backend, id string) Traits {
			return Traits{Listed: true, AgentsAdd: id != "tool-1", AgentsEdit: true}
		},
		Turns: func(string) Turns { return turns },
	})
}

func suspicion(id string) gate.Suspicion {
	return gate.Suspicion{MemoryKey: memproxy.MemoryKey{Backend: "letta", Kind: memproxy.TargetMemory, ID: id}, Known: "aa"}
}

// Proves EDGE-4: a suspicion waits for the turns that are under way and for what
// they wrote to be recorded; where another process may have an agent at work, it
// waits for as long as a turn may take, and no longer.
func TestSuspicionsWaitForTurns(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	turns := &fakeTurns{underway: true}
	due := func(c *Custodian, after time.Duration) int { return len(c.suspects.due(now.Add(after))) }

	c := custodianOf(now, turns)
	c.Suspect(suspicion("block-1"))
	c.Suspect(suspicion("tool-1"))
	if n := c.suspects.waiting(); n != 1 {
		t.Fatalf("%d wait, want the block alone", n)
	}
	if due(c, time.Minute) != 0 {
		t.Error("it does not wait for the turn")
	}
	turns.underway = false
	if due(c, 2*time.Minute) != 0 || due(c, 2*time.Minute+suspectSettle-1) != 0 || due(c, 2*time.Minute+suspectSettle) != 1 || c.suspects.waiting() != 0 {
		t.Error("it does not wait for what the turn wrote, and no longer")
	}

	c = custodianOf(now, turns)
	c.Config.Ledger.URL = config.NewSecret("postgres://ledger")
	c.Suspect(suspicion("block-1"))
	if due(c, time.Hour-1) != 0 || due(c, time.Hour) != 0 || due(c, time.Hour+suspectSettle) != 1 {
		t.Error("it does not wait for as long as a turn of another process may take, and no longer")
	}

	c = custodianOf(now, nil)
	if c.Suspect(suspicion("block-1")); c.suspects.waiting() != 0 {
		t.Error("it waits where no turn can be waited for")
	}
}

// Proves EDGE-4: what waits to be looked at again is bounded.
func TestSuspicionsAreBounded(t *testing.T) {
	c := custodianOf(time.Unix(1_800_000_000, 0), &fakeTurns{})
	for i := range maxSuspects + 1 {
		c.Suspect(suspicion(fmt.Sprintf("block-%d", i)))
	}
	if n := c.suspects.waiting(); n != maxSuspects {
		t.Errorf("%d wait", n)
	}
}
