package integrity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/upkeep"
)

const (
	// anchorPoll is how often the heads of the chains are recorded in the audit log, which
	// an editor of the ledger cannot change. The anchor does not reveal the removal of
	// records at the end of a chain that were written after the last anchor.
	anchorPoll = time.Minute
	// sweepPoll is how often the job checks whether a sweep is due, sweepAgain the pause
	// before a failed sweep is repeated, and sweepTime the maximum duration of one.
	sweepPoll  = time.Minute
	sweepAgain = 5 * time.Minute
	sweepTime  = 6 * time.Hour
)

// Jobs returns the background jobs of a Checker. broken triggers verifying the chains.
func (c *Checker) Jobs(broken upkeep.Signal) []upkeep.Job {
	jobs := []upkeep.Job{
		{Name: "anchors", Every: anchorPoll, Wake: upkeep.NewPendingSignal(), Once: func(ctx context.Context, _ time.Time) error { return c.Anchor(ctx) }},
		c.verifying(broken),
		{Name: "sweeps", Every: min(sweepPoll, c.Config.Memories.Sweep.Std()), Wake: c.checks.wake, Once: func(ctx context.Context, now time.Time) error {
			checked := c.checks.runDue(ctx, now)
			if err := c.sweepDue(ctx); err != nil {
				return errors.Join(err, checked)
			}
			return checked
		}},
	}
	if *c.Config.Memories.Seal {
		jobs = append(jobs, c.adoptions()...)
	}
	return jobs
}

// sweepDue sweeps the backends and the chains if no process that shares the ledger did
// so within the interval, across restarts too. It logs the number of findings; the
// audit log has each of them.
func (c *Checker) sweepDue(ctx context.Context) error {
	const name = "sweep"
	holder, every := c.NewID(), c.Config.Memories.Sweep.Std()
	if every <= 0 {
		return nil
	}
	mine, err := c.Ledger.Backends.Claim(ctx, name, holder, every)
	if err != nil {
		return fmt.Errorf("look up whether a sweep is due: %w", err)
	}
	if !mine {
		return nil
	}
	sctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	renewed := c.Clock()
	keep := func(int64, int64) { // a sweep may take longer than the interval
		if now := c.Clock(); now.Sub(renewed) >= every/2 {
			renewed = now
			_, _ = c.Ledger.Backends.Claim(ctx, name, holder, every) // an error costs a second sweep at most
		}
	}
	report, err := c.sweepAt(sctx, review.SweepRequest{Progress: keep}, c.Pace.Slow)
	for _, b := range report.Backends {
		if b.Unread != "" && err == nil {
			err = errors.New(b.Unread)
		}
	}
	if err != nil {
		_, _ = c.Ledger.Backends.Claim(ctx, name, holder, min(sweepAgain, every)) // if this fails too, the next sweep is one interval later
		if errors.Is(err, errBusy) {
			return nil // a reviewer's
		}
		return fmt.Errorf("the backends were not swept: %w", err)
	}
	if n := report.Findings(); n > 0 {
		c.Log.Warn("memories or chains differ from what was written through memproxy", "findings", n)
	}
	return nil
}
