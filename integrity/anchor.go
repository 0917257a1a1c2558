package integrity

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
)

// anchorAgain is after what time an end is noted again that did not move: the
// log may give its old records up.
const anchorAgain = 24 * time.Hour

// anchor is the end of a chain, and when it was noted.
type anchor struct {
	memproxy.ChainHead
	noted time.Time
}

// anchors are the ends that were noted last, by tenant.
type anchors struct {
	mu   sync.Mutex
	last map[string]anchor // by the tenant's hash; nil until the log was read
}

// Anchor notes where the chains end now, of those that grew. Each must still
// go through the end that was noted before: one that does not is broken, and
// nothing is noted of it any more. So the newest anchor speaks for all.
func (c *Custodian) Anchor(ctx context.Context) error {
	c.anchors.mu.Lock()
	defer c.anchors.mu.Unlock()
	if c.anchors.last == nil {
		last, err := c.anchored(ctx)
		if err != nil {
			return err
		}
		c.anchors.last = last
	}
	heads, err := c.Ledger.Chains.Heads(ctx)
	if err != nil {
		return err
	}
	for _, h := range heads {
		name := tenantHash(h.Tenant)
		last := c.anchors.last[name]
		still := h.Position == last.Position && h.Link == last.Link
		if still && c.Clock().Sub(last.noted) < anchorAgain || h.Position == 0 {
			continue
		}
		last.Tenant = h.Tenant
		fault, err := c.Ledger.Chains.Reaches(ctx, last.ChainHead)
		if err != nil {
			return err
		}
		if fault != nil {
			if err := c.broke(ctx, *fault); err != nil {
				return err
			}
		}
		broken, err := c.breached(ctx, h.Tenant)
		if err != nil {
			return err
		}
		if broken {
			continue
		}
		if err := c.Audit.Note(anchorEvent(c.Clock(), name, h)); err != nil {
			return err
		}
		c.anchors.last[name] = anchor{h, c.Clock()}
	}
	return nil
}

// breached reports whether something of a chain is broken that nobody accepted.
func (c *Custodian) breached(ctx context.Context, tenant string) (bool, error) {
	known, err := c.Ledger.Chains.Breaches(ctx, tenant)
	return slices.ContainsFunc(known, func(b memproxy.Breach) bool { return !b.Accepted }), err
}

// anchorEvent is the record of an end. It names no tenant.
func anchorEvent(now time.Time, name string, h memproxy.ChainHead) memproxy.Event {
	return memproxy.Event{
		Type: memproxy.EventAnchor, Time: now, Targets: []string{name}, Items: int(h.Position), ContentSHA256: h.Link,
		Claimed: -1, Confidence: -1,
	}
}
