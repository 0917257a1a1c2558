package upkeep

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// steadyFor is how long a clock has to run without a step before it is trusted with
	// any duration: NTP corrects a clock that is wrong at the start within minutes.
	steadyFor  = time.Hour
	steadyStep = time.Minute // smallest jump of the clock that counts as a step
)

// ClockGuard decides whether a clock can be trusted for what cannot be undone: deleting,
// destroying or showing something because a duration has passed. The clock is trusted
// with a duration once it has run for that duration, or for steadyFor if that is
// shorter, without a step since the start of the process. Until then ClockGuard uses what
// the ledger knows from earlier processes.
type ClockGuard struct {
	clock func() time.Time
	up    func() time.Duration
	ran   func(context.Context, time.Duration) (time.Time, error)
	log   *slog.Logger

	mu    sync.Mutex
	began time.Time     // what the present clock showed when up was zero
	since time.Duration // value of up since which the clock has had no step

	noting sync.Mutex
	noted  time.Duration // value of up that the ledger has recorded
}

// NewClockGuard watches a clock. up returns how long the process has been running, which
// does not change when the clock is set. ran adds to the recorded running time of
// processes, and returns a time that has certainly passed (ledger.Upkeep.AddRunTime).
func NewClockGuard(clock func() time.Time, up func() time.Duration, ran func(context.Context, time.Duration) (time.Time, error), log *slog.Logger) *ClockGuard {
	s := &ClockGuard{clock: clock, up: up, ran: ran, log: log}
	s.began = s.beginning(up())
	return s
}

// beginning returns what the clock would have shown when up was zero.
func (s *ClockGuard) beginning(up time.Duration) time.Time { return s.clock().Round(0).Add(-up) }

// Wait returns how long it takes until the clock can be trusted to have measured a
// duration. Zero means that it can be trusted now.
func (s *ClockGuard) Wait(passed time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.up()
	began := s.beginning(up)
	if step := began.Sub(s.began); step.Abs() >= steadyStep {
		s.since = up
		s.log.Warn("the system clock was changed: expiry, deletion and time-based promotion are suspended until the clock has run for an hour, or for the configured time", "by", step.Round(time.Second))
	}
	s.began = began
	return max(0, s.since+min(passed, steadyFor)-up)
}

// SafeTime returns the time to compare with for items that end after age: now if the clock
// can be trusted with that duration, else a time that has certainly passed, or zero if
// none is known.
func (s *ClockGuard) SafeTime(ctx context.Context, now time.Time, age time.Duration) (time.Time, error) {
	if s.Wait(age) == 0 {
		return now, nil
	}
	return s.note(ctx)
}

// Note records in the ledger how long this process has run, for processes that do not
// run long enough to trust the clock by themselves.
func (s *ClockGuard) Note(ctx context.Context) error {
	_, err := s.note(ctx)
	return err
}

func (s *ClockGuard) note(ctx context.Context) (time.Time, error) {
	s.noting.Lock()
	defer s.noting.Unlock()
	up := s.up()
	came, err := s.ran(ctx, up-s.noted)
	if err == nil {
		s.noted = up
	}
	return came, err
}
