package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/upkeep"
)

// lifetimes is how long memories are kept, by the configuration. What their
// field, their source and their layer say all holds: the shortest counts.
func lifetimes(m *config.Memories) gate.Lifetime {
	return func(field string, layer memproxy.Layer, source memproxy.Source) time.Duration {
		var ttl time.Duration
		most := func(d time.Duration) {
			if d > 0 && (ttl == 0 || d < ttl) {
				ttl = d
			}
		}
		most(m.FieldTTL(field))
		most(m.SourceTTL(source))
		if ttl == 0 {
			ttl = m.TTL["default"].Time()
		}
		most(m.LayerTTL(layer))
		return ttl
	}
}

// upkeep does what time does to memories: it lets them expire, shows what has
// waited quietly for long enough, and looks again at what no rule of today has
// seen yet.
func (s *App) upkeep(ctx context.Context, now time.Time) error {
	gone, err := s.ledger.Expire(ctx)
	if err != nil {
		return fmt.Errorf("memories were not looked after: %w", err)
	}
	if len(gone) > 0 {
		s.log.Info("memories expired", "memories", len(gone))
	}
	if err := errors.Join(s.promote(ctx, now), s.validate(ctx), s.purge(ctx, now), s.shred(ctx, now)); err != nil {
		return fmt.Errorf("memories were not all looked after: %w", err)
	}
	return nil
}

// promote shows pending memories that nobody corrected for long enough.
func (s *App) promote(ctx context.Context, now time.Time) error {
	quiet := s.cfg.Memories.Quiet.Time()
	if quiet <= 0 {
		return nil
	}
	list, err := s.ledger.ListStandings(ctx, memproxy.StandingFilter{State: memproxy.StatePending, QuietSince: now.Add(-quiet), Limit: 100})
	if err != nil {
		return err
	}
	var changes []memproxy.StateChange
	for i := range list {
		changes = append(changes, memproxy.StateChange{
			MemoryKey: list[i].MemoryKey, Tenant: list[i].Tenant, State: memproxy.StateUntrusted,
			From: []memproxy.MemoryState{memproxy.StatePending}, Reason: "nobody corrected it for long enough", Decision: list[i].Decision,
		})
	}
	_, err = s.ledger.SetState(ctx, changes...)
	return err
}

// purge deletes what expired long ago, in the backend and then here.
func (s *App) purge(ctx context.Context, now time.Time) error {
	archive := s.cfg.Memories.Archive.Time()
	if archive <= 0 {
		return nil
	}
	list, err := s.ledger.Purgeable(ctx, now.Add(-archive), 100)
	if err != nil {
		return err
	}
	for i := range list {
		p := s.proxyOf(list[i].Backend)
		if p == nil {
			continue
		}
		if err := p.Remove(ctx, list[i].MemoryKey); err != nil {
			s.log.Warn("an expired memory was not deleted; it is tried again", "memory", list[i].ID, "error", err)
			continue
		}
		if err := s.ledger.Purge(ctx, list[i].MemoryKey, memproxy.SystemActor, list[i].Decision); err != nil {
			return err
		}
	}
	return nil
}

// shred destroys the texts of what was deleted long enough ago.
func (s *App) shred(ctx context.Context, now time.Time) error {
	grace := s.cfg.Memories.Deleted.Time()
	if grace <= 0 {
		return nil
	}
	gone, err := s.ledger.DeletedBefore(ctx, now.Add(-grace), 100)
	if err != nil {
		return err
	}
	for _, k := range gone {
		if err := s.ledger.Purge(ctx, k, memproxy.SystemActor, ""); err != nil {
			return err
		}
	}
	return nil
}

// How often what wakes nobody is looked for.
const (
	// maintainEvery is how often what is over is looked through, the first time
	// soon after the start: not every sidecar lives for a day.
	maintainEvery = 24 * time.Hour
	// summariseEvery is how often rejections that were only counted are recorded.
	summariseEvery = 10 * time.Second
	// replayPoll is for claims of a process that was killed, of which the lease
	// ends without a word, and for approvals in one that shares the ledger.
	replayPoll = 5 * time.Second
	// noticePoll is for notices of a process that shares the ledger and died.
	noticePoll = 30 * time.Second
	agePoll    = time.Minute
)

// startJobs begins everything that goes on in the background. What is not
// configured has no job; memories.validate: 0 has upkeep wait to be asked for.
func (s *App) startJobs() {
	s.runner.Wake() // what the process before left
	s.jobs.Start(upkeep.Job{Name: "replays", Every: replayPoll, Wake: s.runner.Woken(), Once: func(ctx context.Context, _ time.Time) error { return s.runner.Recover(ctx) }})
	if s.webhooks != nil {
		s.noticed.Send()
		s.jobs.Start(upkeep.Job{Name: "webhooks", Every: noticePoll, Wake: s.noticed, Once: s.deliver})
	}
	s.jobs.Start(s.reconsidering())
	s.jobs.Start(upkeep.Job{Name: "ageing", Every: agePoll, Once: s.age})
	s.jobs.Start(upkeep.Job{Name: "upkeep", Every: s.cfg.Memories.Validate.Time(), Once: s.upkeep})
	s.jobs.Start(upkeep.Job{Name: "retention", Every: maintainEvery, Wake: upkeep.AtOnce(), Once: s.maintain})
	s.jobs.Start(upkeep.Job{Name: "rejections", Every: summariseEvery, Once: func(ctx context.Context, _ time.Time) error { s.gate.SummariseRejections(ctx); return nil }})
	s.group.Own(stageNotes, func(ctx context.Context) error { s.gate.SummariseRejections(ctx); return nil })
	for _, job := range s.custodian.Jobs(s.broken) {
		s.jobs.Start(job)
	}
	s.keepBaseline()
}

// deliver tells of what is queued, and when it is to be tried again.
func (s *App) deliver(ctx context.Context, now time.Time) error {
	next, err := s.webhooks.Deliver(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("notices could not be delivered: %w", err)
	case !next.IsZero():
		return upkeep.Due{In: next.Sub(now)}
	}
	return nil
}

// maintain removes what is past its retention.
func (s *App) maintain(ctx context.Context, _ time.Time) error {
	k := s.cfg.Ledger.Keep
	gone, err := s.ledger.Maintain(ctx, ledger.Retention{
		Holds: k.Holds.Time(), Sessions: k.Sessions.Time(), Tombstones: k.Deleted.Time(), Records: k.Records.Time(),
	})
	if gone != (ledger.Removed{}) {
		s.record(memproxy.EventPurge, fmt.Sprintf("past their retention: %d held writes with their contents, %d sessions, %d tombstones of deleted memories and %d records of versions were removed",
			gone.Holds, gone.Sessions, gone.Tombstones, gone.Records))
	}
	if err != nil {
		return fmt.Errorf("what is over was not all removed: %w", err)
	}
	return nil
}
