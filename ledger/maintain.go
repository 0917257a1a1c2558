package ledger

import (
	"context"
	"errors"
	"time"
)

const day = 24 * time.Hour

// The defaults of Retention.
const (
	DefaultKeepHolds      = 90 * day
	DefaultKeepSessions   = 90 * day
	DefaultKeepTombstones = 180 * day
	DefaultKeepRecords    = 365 * day
)

// Retention says how long things that are over are kept. Zero is the default.
type Retention struct {
	Holds      time.Duration // settled ones, with their contents
	Sessions   time.Duration // ended and not locked
	Tombstones time.Duration // of deleted memories, with notes of corrections
	Records    time.Duration // of versions whose text was given up
}

// Removed is how much a maintenance removed.
type Removed struct {
	Holds, Sessions, Tombstones, Records int
}

// Maintain removes what is older than its retention. Call it now and then; it
// may be stopped and called again, and one part's failure does not keep the
// others from being done. What expires and what ends is not its business: see
// Expire, Purgeable, DeletedBefore, EndSessions, AgeHolds.
func (l *Ledger) Maintain(ctx context.Context, r Retention) (Removed, error) {
	before := func(d, def time.Duration) time.Time {
		if d <= 0 {
			d = def
		}
		return l.opt.Clock().Add(-d)
	}
	var gone Removed
	var holds, sessions, tombstones error
	gone.Holds, holds = l.PruneHolds(ctx, before(r.Holds, DefaultKeepHolds))
	gone.Sessions, sessions = pruneSessions(ctx, l, before(r.Sessions, DefaultKeepSessions))
	gone.Tombstones, tombstones = l.Prune(ctx, before(r.Tombstones, DefaultKeepTombstones))
	errs := []error{holds, sessions, tombstones}
	if l.opt.Vault != nil {
		heads, err := l.ChainHeads(ctx)
		errs = append(errs, err)
		for _, h := range heads {
			n, err := l.Trim(ctx, h.Tenant, before(r.Records, DefaultKeepRecords))
			gone.Records += n
			if errors.Is(err, ErrState) {
				continue // broken, and kept: Verify tells of it
			}
			errs = append(errs, err)
		}
	}
	return gone, errors.Join(errs...)
}
