package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/screen"
)

// validateBatch is how many memories are looked at again at a time (DOL-3).
const validateBatch = 10

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

// pending says whose new memories wait, by the configuration.
func pending(tiers []string) func(memproxy.Principal) bool {
	if len(tiers) == 0 {
		return nil
	}
	return func(p memproxy.Principal) bool { return slices.Contains(tiers, string(p.Trust)) }
}

// upkeep does what time does to memories: it lets them expire, shows what has
// waited quietly for long enough, and looks again at what no rule of today has
// seen yet.
func (s *sidecar) upkeep(ctx context.Context) {
	every(ctx, s.cfg.Memories.Validate.Time(), func() {
		if err := s.upkeepOnce(ctx, s.clock()); err != nil && ctx.Err() == nil {
			s.log.Error("memories were not looked after", "error", err)
		}
	})
}

// every does something at a pace until ctx is over, the first time after one
// step of it. Zero is never.
func every(ctx context.Context, pace time.Duration, do func()) {
	if pace <= 0 {
		return
	}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		do()
	}
}

func (s *sidecar) upkeepOnce(ctx context.Context, now time.Time) error {
	gone, err := s.ledger.Expire(ctx)
	if err != nil {
		return err
	}
	if len(gone) > 0 {
		s.log.Info("memories expired", "memories", len(gone))
	}
	return errors.Join(s.promote(ctx, now), s.validate(ctx), s.purge(ctx, now), s.shred(ctx, now))
}

// promote shows pending memories that nobody corrected for long enough.
func (s *sidecar) promote(ctx context.Context, now time.Time) error {
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

// validate judges memories that the rules in force have not seen: new ones,
// and all of them after a change of the rules.
func (s *sidecar) validate(ctx context.Context) error {
	rules := s.rules.current()
	if rules.Screener == nil {
		return nil
	}
	for _, state := range []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateValidated, memproxy.StateFlagged} {
		list, err := s.ledger.ListStandings(ctx, memproxy.StandingFilter{State: state, NotRules: rules.Version, Limit: validateBatch})
		if err != nil {
			return err
		}
		for i := range list {
			if err := s.validateOne(ctx, rules, &list[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sidecar) validateOne(ctx context.Context, rules *gate.Rules, st *memproxy.Standing) error {
	change := memproxy.StateChange{
		MemoryKey: st.MemoryKey, Tenant: st.Tenant, State: st.State, From: []memproxy.MemoryState{st.State},
		Seen: st.Changed, Rules: rules.Version, Decision: st.Decision, Reason: st.Reason, Findings: st.Findings, Text: st.Text,
	}
	text, err := s.newest(ctx, st.MemoryKey)
	if err != nil {
		return err
	}
	if text != "" {
		op := &memproxy.Operation{Kind: memproxy.Recall, Backend: st.Backend, Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text}}}
		findings, err := rules.Screener.Screen(ctx, memproxy.Screening{Principal: memproxy.Principal{Tenant: st.Tenant}, Operation: op, Reading: true})
		if err != nil {
			return err
		}
		change.State, change.Reason, change.Findings = judged(findings)
		change.Text = memproxy.TextSHA256(text)
	}
	_, err = s.ledger.SetState(ctx, change)
	return err
}

// judged is the state that findings put a memory into.
func judged(findings []memproxy.Finding) (memproxy.MemoryState, string, []memproxy.Finding) {
	var risk memproxy.PerMille
	var spans []memproxy.Finding
	for _, f := range findings {
		risk = max(risk, f.Score)
		if f.Rule != screen.RuleRisk && f.Score > 0 {
			spans = append(spans, f)
		}
	}
	switch {
	case risk >= screen.Deny:
		return memproxy.StateQuarantined, "it looks like an attack", nil
	case risk >= screen.Hold:
		return memproxy.StateFlagged, "parts of it look like instructions", spans
	}
	return memproxy.StateValidated, "nothing was found in it", nil
}

// newest is the text of a memory as it was last written through memproxy, or
// "" where that is not known.
func (s *sidecar) newest(ctx context.Context, k memproxy.MemoryKey) (string, error) {
	list, err := s.ledger.History(ctx, k, 0, 1)
	if err != nil || len(list) == 0 || list[0].Op == memproxy.OpDelete {
		return "", err
	}
	v, err := s.ledger.Version(ctx, k, list[0].Number)
	if errors.Is(err, ledger.ErrShredded) || errors.Is(err, ledger.ErrUnknown) {
		return "", nil
	}
	return v.Text, err
}

// purge deletes what expired long ago, in the backend and then here.
func (s *sidecar) purge(ctx context.Context, now time.Time) error {
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
func (s *sidecar) shred(ctx context.Context, now time.Time) error {
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

// maintainEvery is how often what is over is looked through, the first time
// soon after the start: not every sidecar lives for a day.
const maintainEvery = 24 * time.Hour

// summariseEvery is how often rejections that were only counted are recorded.
const summariseEvery = 10 * time.Second

// watchRejections records how many rejections were only counted.
func (s *sidecar) watchRejections(ctx context.Context) {
	tick := time.NewTicker(summariseEvery)
	s.onClose(func(ctx context.Context) error { s.gate.SummariseRejections(ctx); return nil })
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.gate.SummariseRejections(ctx)
			}
		}
	}()
}

// watchRetention removes what is past its retention.
func (s *sidecar) watchRetention(ctx context.Context) {
	tick := time.NewTicker(maintainEvery)
	go func() {
		defer tick.Stop()
		s.keepMaintaining(ctx, tick.C)
	}()
}

func (s *sidecar) keepMaintaining(ctx context.Context, tick <-chan time.Time) {
	for {
		if err := s.maintain(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("what is over was not all removed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

func (s *sidecar) maintain(ctx context.Context) error {
	k := s.cfg.Ledger.Keep
	gone, err := s.ledger.Maintain(ctx, ledger.Retention{
		Holds: k.Holds.Time(), Sessions: k.Sessions.Time(), Tombstones: k.Deleted.Time(), Records: k.Records.Time(),
	})
	if gone != (ledger.Removed{}) {
		s.record(memproxy.EventPurge, fmt.Sprintf("past their retention: %d held writes with their contents, %d sessions, %d tombstones of deleted memories and %d records of versions were removed",
			gone.Holds, gone.Sessions, gone.Tombstones, gone.Records))
	}
	return err
}
