package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/upkeep"
	"github.com/memproxy/memproxy/upkeep/holds"
	"github.com/memproxy/memproxy/upkeep/memories"
)

// The intervals of work that nothing wakes up.
const (
	summariseEvery = 10 * time.Second // how often rejections that were only counted are recorded
	pruneEvery     = time.Hour        // how often old records of the audit log are looked for
	// replayPoll finds claims of a killed process, whose leases expire without a
	// notification, and approvals made by another process on the same ledger.
	replayPoll = 5 * time.Second
	// noticePoll finds notices of a process on the same ledger that died.
	noticePoll = 30 * time.Second
)

// startJobs starts the background jobs. A feature that is not configured has no job. With
// memories.validate: 0 the upkeep job runs only on request.
func (s *App) startJobs(held *holds.Maintainer) {
	s.review.Runner.Wake() // there may be work left by the previous process
	s.jobs.Start(upkeep.Job{Name: "replays", Every: replayPoll, Wake: s.review.Runner.WakeChan(), Once: func(ctx context.Context, _ time.Time) error { return s.review.Runner.Recover(ctx) }})
	if s.webhooks != nil {
		s.noticed.Send()
		s.jobs.Start(upkeep.Job{Name: "webhooks", Every: noticePoll, Wake: s.noticed, Once: delivering(s.webhooks)})
	}
	s.jobs.Start(upkeep.Job{Name: "clock", Every: time.Minute, Once: func(ctx context.Context, _ time.Time) error { return s.clockGuard.Note(ctx) }})
	s.group.Own(stageNotes, s.clockGuard.Note)
	if keep, maxBytes := s.cfg.Audit.Retention.Std(), s.cfg.Audit.MaxBytes; keep > 0 || maxBytes > 0 {
		every := pruneEvery
		if maxBytes > 0 {
			every = time.Minute
		}
		s.jobs.Start(upkeep.Job{Name: "records", Every: every, Wake: upkeep.NewPendingSignal(), Once: pruning(s.audit, s.clockGuard, keep, maxBytes)})
	}
	s.jobs.Start(upkeep.Job{Name: "rejections", Every: summariseEvery, Once: func(ctx context.Context, _ time.Time) error { s.gate.SummariseRejections(ctx); return nil }})
	s.group.Own(stageNotes, func(ctx context.Context) error { s.gate.SummariseRejections(ctx); return nil })
	mems := memories.New(memories.Options{
		Config: s.cfg, Ledger: s.ledger, Log: s.log, Rules: s.rules.current, Budget: s.budget,
		Backend:   clientsOf(s),
		Integrity: s.checker, Note: s.record, ClockGuard: s.clockGuard, Unconfirmed: s.unconfirmed,
	})
	for _, job := range slices.Concat(held.Jobs(), mems.Jobs(), s.checker.Jobs(s.broken)) {
		s.jobs.Start(job)
	}
	for i, p := range s.proxies {
		if b := &s.cfg.Backends[i]; b.Kind == "letta" { // only its agents run
			// Each backend has its own job, because an agent that is released runs as long as
			// its model takes.
			every := b.Reconcile.Std()
			if every <= 0 {
				every = proxy.DefaultReconcile
			}
			s.jobs.Start(upkeep.Job{Name: "runs:" + b.Name, Every: every, Wake: upkeep.NewPendingSignal(), Once: p.Runs().Once})
		}
	}
	s.keepBaseline()
}

// pruning returns a job that removes records of the audit log that are older than keep,
// and the oldest ones while the log exceeds maxBytes. Zero means no limit. If the ledger
// cannot say what is safely older, such as on a full volume that it shares with the log, room
// is still made by size.
func pruning(log *audit.Log, steady *upkeep.ClockGuard, keep time.Duration, maxBytes int64) func(context.Context, time.Time) error {
	return func(ctx context.Context, now time.Time) error {
		var before time.Time
		var unknown, wait error
		if keep > 0 {
			var came time.Time
			if came, unknown = steady.SafeTime(ctx, now, keep); !came.IsZero() {
				before = came.Add(-keep)
			}
			if in := steady.Wait(keep); in > 0 {
				wait = upkeep.Due{In: in}
			}
		}
		_, err := log.Prune(ctx, before, maxBytes)
		return cmp.Or(err, unknown, wait)
	}
}

// delivering returns a job that delivers queued notices, and schedules its next run for
// when a notice is due for a retry.
func delivering(hooks *review.Webhooks) func(context.Context, time.Time) error {
	return func(ctx context.Context, now time.Time) error {
		next, err := hooks.Deliver(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("notices could not be delivered: %w", err)
		case !next.IsZero():
			return upkeep.Due{In: next.Sub(now)}
		}
		return nil
	}
}
