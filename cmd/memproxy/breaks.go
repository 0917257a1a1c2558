package main

import (
	"context"
	"time"
)

// breakPause is how long the chains are left alone after they were verified
// because a version was found that is not as it was written: every further
// write of that memory finds it again.
const breakPause = time.Minute

// brokenVersion is told by the ledger's writer, in passing, that a version is
// not as it was written.
func (s *sidecar) brokenVersion() {
	select {
	case s.broken <- struct{}{}:
	default: // the chains are about to be verified
	}
}

// keepVerifying verifies the chains, all of them, when a version was found
// that is not as it was written: who changed one may have changed others. So a
// break that comes to light in passing is named as one that a sweep finds.
func (s *sidecar) keepVerifying(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.broken:
		}
		if err := s.custodian.verify(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("the chains were not verified; it is tried again", "error", err)
			s.brokenVersion()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// verify names the breaks of all chains, as a sweep does.
func (c *custodian) verify(ctx context.Context) error {
	c.working.Lock()
	defer c.working.Unlock()
	_, err := c.chains(ctx, false)
	return err
}
