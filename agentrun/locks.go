package agentrun

import (
	"context"

	"github.com/memproxy/memproxy/internal/keyed"
)

// Locks serialize access to agents: turns of one key run one after another, and changes
// of an agent's tools wait for its turns. A lock is held until the changes of its turn are
// recorded.
type Locks struct{ keyed.Queue }

// A turn takes its agent's lock shared, and the lock of its own key exclusively.
const (
	Shared    = false
	Exclusive = true
)

// Lock waits for the locks of keys, Shared or Exclusive, and returns the function that releases
// them.
func (t *Locks) Lock(ctx context.Context, alone bool, keys ...string) (unlock func(), err error) {
	ticket := t.EnterLock(alone, keys...)
	if err := ticket.Wait(ctx); err != nil {
		return nil, err
	}
	return ticket.Leave, nil
}
