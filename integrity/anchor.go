package integrity

import (
	"context"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// anchorAgain is the age at which an unchanged head is anchored again, because the
// audit log may delete old records.
const anchorAgain = 24 * time.Hour

// anchor is the head of a chain and the time at which it was recorded.
type anchor struct {
	memproxy.ChainHead
	noted time.Time
}

// Anchor records the present heads of the chains that grew. Each chain must still
// contain its last anchor. A chain that does not is broken and is not anchored any
// more, so that the newest anchor of a chain covers everything before it.
func (c *Checker) Anchor(ctx context.Context) error {
	c.anchoring.Lock()
	defer c.anchoring.Unlock()
	if c.anchors == nil {
		last, err := c.anchored(ctx)
		if err != nil {
			return err
		}
		c.anchors = last
	}
	heads, err := c.Ledger.Chains.Heads(ctx)
	if err != nil {
		return err
	}
	for _, h := range heads {
		name := tenantHash(h.Tenant)
		last := c.anchors[name]
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
			if err := c.reportBreach(ctx, *fault); err != nil {
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
		if err := c.Audit.RecordAsync(anchorEvent(c.Clock(), name, h)); err != nil {
			return err
		}
		c.anchors[name] = anchor{h, c.Clock()}
	}
	return nil
}

func (c *Checker) breached(ctx context.Context, tenant string) (bool, error) {
	known, err := c.Ledger.Chains.Breaches(ctx, tenant)
	return slices.ContainsFunc(known, func(b memproxy.Breach) bool { return !b.Accepted }), err
}

// anchorEvent returns the audit event of a head. It contains name, not the tenant.
func anchorEvent(now time.Time, name string, h memproxy.ChainHead) memproxy.Event {
	return memproxy.Event{
		Type: memproxy.EventAnchor, Time: now, Targets: []string{name}, Items: int(h.Position), ContentSHA256: h.Link,
		Claimed: -1, Confidence: -1,
	}
}
