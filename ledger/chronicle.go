package ledger

import (
	"context"
	"slices"
	"sync"

	"github.com/memproxy/memproxy"
)

// Chronicle does what Seal, Append and SetState do, all in one transaction,
// which it shares with others: some milliseconds later, because a transaction
// costs much more than what is in it. It returns as soon as that is queued, in
// order; whoever asks this ledger how the memories stand, or for their
// histories, waits for it. Another process on the same store finds it once it
// is committed. What cannot be done then is lost, and Options.Lost is told.
func (l *Ledger) Chronicle(ctx context.Context, c memproxy.Chronicle) error {
	if l.opt.Vault == nil && len(c.Found)+len(c.Versions) > 0 {
		return ErrNoVault
	}
	if c.Empty() {
		return ctx.Err()
	}
	found, err := sealed(c.Found)
	if err != nil {
		return err
	}
	for i := range c.Versions {
		if err := validVersion(&c.Versions[i]); err != nil {
			return err
		}
	}
	for i := range c.States {
		if err := validChange(&c.States[i]); err != nil {
			return err
		}
	}
	versions, states := slices.Clone(c.Versions), slices.Clone(c.States)
	keys := make([]key, 0, len(found)+len(versions)+len(states))
	for i := range found {
		keys = append(keys, found[i].MemoryKey)
	}
	for i := range versions {
		keys = append(keys, versions[i].MemoryKey)
	}
	for i := range states {
		keys = append(keys, states[i].MemoryKey)
	}
	l.coming.add(keys)
	gone := func() { l.coming.remove(keys) }
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	err = l.send(ctx, &job{ctx: context.Background(), after: gone, also: func(t *transaction) error {
		for i := range found {
			if err := t.found(found[i]); err != nil {
				return err
			}
		}
		for i := range versions {
			if _, err := t.append(versions[i]); err != nil {
				return err
			}
		}
		for i := range states {
			if _, err := t.setState(&states[i]); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		gone()
	}
	return err
}

// KeepFound keeps what stands in the backend and no version has, before it is
// overwritten: it is in the history when this returns.
func (l *Ledger) KeepFound(ctx context.Context, found ...memproxy.Version) error {
	if l.opt.Vault == nil {
		return ErrNoVault
	}
	in, err := sealed(found)
	if err != nil {
		return err
	}
	return l.do(ctx, &job{durable: true, also: func(t *transaction) error {
		for i := range in {
			if err := t.found(in[i]); err != nil {
				return err
			}
		}
		return nil
	}})
}

// coming are the memories of which something is on its way.
type coming struct {
	mu   sync.Mutex
	keys map[key]int
}

func (c *coming) add(keys []key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		c.keys = map[key]int{}
	}
	for _, k := range keys {
		c.keys[k]++
	}
}

func (c *coming) remove(keys []key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		if c.keys[k]--; c.keys[k] <= 0 {
			delete(c.keys, k)
		}
	}
}

func (c *coming) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys) == 0
}

func (c *coming) any(keys []key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys) > 0 && slices.ContainsFunc(keys, func(k key) bool { return c.keys[k] > 0 })
}
