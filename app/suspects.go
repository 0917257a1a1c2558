package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/upkeep"
)

const (
	// maxSuspects bounds what is to be looked at again; more is seen by the
	// next read.
	maxSuspects = 1024
	// suspectSettle is how long what was written may take into the ledger, once
	// its turn is over.
	suspectSettle = 5 * time.Second
)

// suspects are blocks that a read showed with another text than was recorded.
// An agent changes its blocks inside the backend, and that is recorded once its
// leg is over. So each is looked at again when every turn that was under way is
// over: what is not recorded by then did not come through memproxy.
type suspects struct {
	mu    sync.Mutex
	open  map[gate.Suspicion]suspected
	noted upkeep.Signal // one that was not open
}

// waiting reports whether there are any.
func (s *suspects) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0
}

type suspected struct {
	seen  time.Time
	turns proxy.Moment
	quiet time.Time // when its turns were first found to be over
}

// suspect notes what a read saw.
func (s *App) suspect(su gate.Suspicion) {
	p := s.proxyOf(su.Backend)
	if kind := letta.KindOf(su.ID); p == nil || kind != letta.TargetBlock && kind != letta.TargetPassage {
		return
	}
	s.suspects.mu.Lock()
	defer s.suspects.mu.Unlock()
	if _, known := s.suspects.open[su]; known || len(s.suspects.open) >= maxSuspects {
		return
	}
	if s.suspects.open == nil {
		s.suspects.open = map[gate.Suspicion]suspected{}
	}
	s.suspects.open[su] = suspected{seen: s.clock(), turns: p.Moment()}
	s.suspects.noted.Send()
}

// convictDue looks again at what is suspected, as long as there is any.
func (s *App) convictDue(ctx context.Context, now time.Time) error {
	var errs []error
	for _, su := range s.due(now) {
		if err := s.convict(ctx, su); err != nil {
			errs = append(errs, fmt.Errorf("memory %s, which is not what was recorded, was not named; the next read looks again: %w", su.ID, err))
		}
	}
	if len(errs) == 0 && s.suspects.waiting() {
		return upkeep.Due{In: suspectSettle / 2}
	}
	return errors.Join(errs...)
}

// due takes out what can be told by now.
func (s *App) due(now time.Time) []gate.Suspicion {
	var out []gate.Suspicion
	s.suspects.mu.Lock()
	defer s.suspects.mu.Unlock()
	for su, st := range s.suspects.open {
		if s.unsettled(su.Backend, st, now) {
			continue
		}
		if st.quiet.IsZero() {
			st.quiet = now
			s.suspects.open[su] = st
		}
		if now.Sub(st.quiet) >= suspectSettle {
			delete(s.suspects.open, su)
			out = append(out, su)
		}
	}
	return out
}

// unsettled reports whether a turn may be under way that changed what was seen:
// here, or in another process that has the same ledger.
func (s *App) unsettled(backend string, st suspected, now time.Time) bool {
	p := s.proxyOf(backend)
	if now.Sub(st.seen) >= p.LongestTurn() {
		return false
	}
	return s.cfg.Ledger.URL.Reveal() != "" || p.Underway(st.turns)
}

// elsewhere has what a sweep saw looked at again, if agents may be at work in
// other processes: of their turns nothing is known here.
func (s *App) elsewhere(su gate.Suspicion) bool {
	if s.cfg.Ledger.URL.Reveal() == "" || s.proxyOf(su.Backend) == nil {
		return false
	}
	s.suspect(su)
	return true
}

// turns is the custodian's.
func (s *App) turns(backend string) (over func() bool) {
	p := s.proxyOf(backend)
	if p == nil { // nobody else has the ledger open, and no agent runs through it
		return func() bool { return true }
	}
	since := p.Moment()
	return func() bool { return !p.Underway(since) }
}

// convict names a block in the log and marks it, if nothing was recorded of it
// since it was seen.
func (s *App) convict(ctx context.Context, su gate.Suspicion) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	rows, err := s.ledger.Owners(ctx, su.Backend, su.Kind, []string{su.ID})
	if err != nil {
		return err
	}
	row, known := rows[su.ID]
	if !known && su.Known == "" {
		return s.custodian.name(ctx, &memproxy.Discrepancy{
			MemoryKey: su.MemoryKey, Tenant: su.Tenant, Class: memproxy.FaultInsert, Code: memproxy.IntegrityUnknown,
			Detail: "nobody wrote it through memproxy",
		})
	}
	if !known || row.Deleted || row.SHA256 != su.Known {
		return nil
	}
	return s.changedAround(ctx, su)
}

// changedAround names a memory of which the backend shows another text than the
// one that is recorded.
func (s *App) changedAround(ctx context.Context, su gate.Suspicion) error {
	return s.custodian.name(ctx, &memproxy.Discrepancy{
		MemoryKey: su.MemoryKey, Tenant: su.Tenant, Class: memproxy.FaultTamper, Code: memproxy.IntegrityMismatch,
		Detail: "a read showed another text than the one that went through memproxy",
	})
}

// agents reports whether a backend's own agents change what it holds.
func (s *App) agents(backend string) bool {
	b, err := s.cfg.Backend(backend)
	return err == nil && b.Kind == "letta"
}
