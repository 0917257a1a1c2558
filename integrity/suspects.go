package integrity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/upkeep"
)

const (
	// maxSuspects bounds what is to be looked at again; the next read sees what
	// is over it.
	maxSuspects = 1024
	// suspectSettle is how long what an agent wrote may take into the ledger,
	// once its turn has ended.
	suspectSettle = 5 * time.Second
)

// suspects are memories of which a read showed another text than is recorded.
// An agent changes its blocks inside the backend, and that is recorded once its
// turn has ended. So each is looked at again when every turn that was under way
// has ended: what is not recorded by then did not come through memproxy.
type suspects struct {
	c     *Custodian
	mu    sync.Mutex
	open  map[gate.Suspicion]suspected
	noted upkeep.Signal // one that was not open
}

type suspected struct {
	seen     time.Time
	underway func() bool
	longest  time.Duration // of a turn
	quiet    time.Time     // when its turns were first found to have ended
}

// Suspect has a memory looked at again, of which a read showed another text than
// the one that is recorded.
func (c *Custodian) Suspect(su gate.Suspicion) {
	if b, err := c.Config.Backend(su.Backend); err == nil && c.Traits(b, su.ID).AgentsAdd {
		c.suspects.add(su)
	}
}

// Differs records a memory of which the backend shows another text than the one
// that is recorded: at once, or, where an agent may be writing it, after its turn.
func (c *Custodian) Differs(ctx context.Context, su gate.Suspicion) error {
	b, err := c.Config.Backend(su.Backend)
	if err != nil || !c.Traits(b, su.ID).Listed {
		return err
	}
	if c.Traits(b, su.ID).AgentsAdd {
		c.suspects.add(su)
		return nil
	}
	return c.name(ctx, differs(su))
}

// add reports false where no turn can be waited for.
func (s *suspects) add(su gate.Suspicion) bool {
	t := s.c.Turns(su.Backend)
	if t == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.open[su]; !known && len(s.open) < maxSuspects {
		s.open[su] = suspected{seen: s.c.Clock(), underway: t.TurnsBegun(), longest: t.LongestTurn()}
		s.noted.Send()
	}
	return true
}

// later has what a sweep found looked at again, where agents may be at work in
// processes that share the ledger: of their turns nothing is known here.
func (s *suspects) later(su gate.Suspicion) bool { return shared(s.c.Config) && s.add(su) }

// once looks again at what is suspected, as long as there is any.
func (s *suspects) once(ctx context.Context, now time.Time) error {
	var errs []error
	for _, su := range s.due(now) {
		if err := s.check(ctx, su); err != nil {
			errs = append(errs, fmt.Errorf("memory %s, which is not what was recorded, was not named; the next read looks again: %w", su.ID, err))
		}
	}
	if len(errs) == 0 && s.waiting() > 0 {
		return upkeep.Due{In: suspectSettle / 2}
	}
	return errors.Join(errs...)
}

// waiting is how many there are.
func (s *suspects) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// due takes out those whose turns ended long enough ago.
func (s *suspects) due(now time.Time) []gate.Suspicion {
	var out []gate.Suspicion
	s.mu.Lock()
	defer s.mu.Unlock()
	for su, st := range s.open {
		if now.Sub(st.seen) < st.longest && (shared(s.c.Config) || st.underway()) {
			continue
		}
		if st.quiet.IsZero() {
			st.quiet = now
			s.open[su] = st
		}
		if now.Sub(st.quiet) >= suspectSettle {
			delete(s.open, su)
			out = append(out, su)
		}
	}
	return out
}

// check names a memory in the log and marks it, if nothing was recorded of it
// since it was seen.
func (s *suspects) check(ctx context.Context, su gate.Suspicion) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	records, err := s.c.Ledger.Lookup(ctx, su.MemoryKey)
	if err != nil {
		return err
	}
	rec := records[su.MemoryKey]
	switch row, known := rec.Owner, rec.Owned(); {
	case !known && su.Known == "":
		return s.c.name(ctx, &memproxy.Discrepancy{
			MemoryKey: su.MemoryKey, Tenant: su.Tenant, Class: memproxy.FaultInsert, Code: memproxy.IntegrityUnknown,
			Detail: "nobody wrote it through memproxy",
		})
	case !known || row.Deleted || row.SHA256 != su.Known:
		return nil
	}
	return s.c.name(ctx, differs(su))
}

// differs is the finding that a suspicion becomes.
func differs(su gate.Suspicion) *memproxy.Discrepancy {
	return &memproxy.Discrepancy{
		MemoryKey: su.MemoryKey, Tenant: su.Tenant, Class: memproxy.FaultTamper, Code: memproxy.IntegrityMismatch,
		Detail: "a read showed another text than the one that went through memproxy",
	}
}

// shared reports whether other processes may have the ledger open.
func shared(cfg *config.Config) bool { return cfg.Ledger.URL.Reveal() != "" }
