package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
)

// anchorPoll is how often the ends of the chains are noted in the log, where
// the ledger's editor cannot reach them. What is cut off a chain within that
// time of its writing is not noticed by the anchor.
const anchorPoll = time.Minute

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
	mu     sync.Mutex
	loaded bool
	last   map[string]anchor // by the tenant's hash
}

// anchor notes where the chains end now, of those that grew. Each must still
// go through the end that was noted before: one that does not is broken, and
// nothing is noted of it any more. So the newest anchor speaks for all.
func (c *Custodian) Anchor(ctx context.Context) error {
	c.anchors.mu.Lock()
	defer c.anchors.mu.Unlock()
	if !c.anchors.loaded {
		last, err := c.anchored(ctx)
		if err != nil {
			return err
		}
		c.anchors.last, c.anchors.loaded = last, true
	}
	heads, err := c.ledger.ChainHeads(ctx)
	if err != nil {
		return err
	}
	for _, h := range heads {
		name := tenantHash(h.Tenant)
		last := c.anchors.last[name]
		still := h.Position == last.Position && h.Link == last.Link
		if still && c.clock().Sub(last.noted) < anchorAgain || h.Position == 0 {
			continue
		}
		last.Tenant = h.Tenant
		fault, err := c.ledger.Reaches(ctx, last.ChainHead)
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
		if err := c.audit.Note(c.anchorEvent(name, h)); err != nil {
			return err
		}
		c.anchors.last[name] = anchor{h, c.clock()}
	}
	return nil
}

// breached reports whether something of a chain is broken that nobody accepted.
func (c *Custodian) breached(ctx context.Context, tenant string) (bool, error) {
	known, err := c.ledger.Breaches(ctx, tenant)
	return slices.ContainsFunc(known, func(b memproxy.Breach) bool { return !b.Accepted }), err
}

// anchorEvent is the record of an end. It names no tenant.
func (c *Custodian) anchorEvent(name string, h memproxy.ChainHead) memproxy.Event {
	return memproxy.Event{
		Type: memproxy.EventAnchor, Time: c.clock(), Targets: []string{name}, Items: int(h.Position), ContentSHA256: h.Link,
		Claimed: -1, Confidence: -1,
	}
}

// How often it is looked whether a sweep is due, how soon one that failed is
// tried again, and how long one may take.
const (
	sweepPoll  = time.Minute
	sweepAgain = 5 * time.Minute
	sweepTime  = 6 * time.Hour
)

// sweepDue looks through the backends and the chains if none of the processes
// that share the ledger did within the interval, restarts or not, and tells of
// it in the process's own log; the audit log has what was found.
func (s *App) sweepDue(ctx context.Context, _ time.Time) error {
	const name = "sweep"
	holder := newID()
	mine, err := s.ledger.Claim(ctx, name, holder, s.cfg.Memories.Sweep.Time())
	if err != nil {
		return fmt.Errorf("it is not known whether a sweep is due: %w", err)
	}
	if !mine {
		return nil
	}
	sctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	report, err := s.custodian.sweepAt(sctx, sweepAll, s.custodian.slow)
	if err != nil {
		_, _ = s.ledger.Claim(ctx, name, holder, min(sweepAgain, s.cfg.Memories.Sweep.Time())) // else it is tried an interval later
		return fmt.Errorf("the backends were not swept: %w", err)
	}
	if n := report.Findings(); n > 0 {
		s.log.Warn("memories or chains are not what went through memproxy", "findings", n)
	}
	return nil
}
