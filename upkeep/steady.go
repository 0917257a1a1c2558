package upkeep

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// steadyFor is how long a clock has to run evenly before it is believed: NTP sets
	// one that is wrong at the start within minutes.
	steadyFor = time.Hour
	// steadyStep is the smallest step that counts as one.
	steadyStep = time.Minute
)

// Steady says whether a clock is to be believed by what cannot be undone: what is
// deleted, destroyed or shown because time has passed. It is once it has run for an
// hour without a step, from the start of the process on.
type Steady struct {
	clock func() time.Time
	up    func() time.Duration
	log   *slog.Logger

	mu    sync.Mutex
	began time.Time     // of up, by the clock as it is
	since time.Duration // of up: from when it has been even
}

// NewSteady watches a clock. Up is how long the process has been running, whatever
// is done to the clock.
func NewSteady(clock func() time.Time, up func() time.Duration, log *slog.Logger) *Steady {
	s := &Steady{clock: clock, up: up, log: log}
	s.began = s.beginning(up())
	return s
}

// beginning is what the clock would have said when up was zero.
func (s *Steady) beginning(up time.Duration) time.Time { return s.clock().Round(0).Add(-up) }

// Wait is how long the clock is still not to be believed, zero for not at all.
func (s *Steady) Wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.up()
	began := s.beginning(up)
	if step := began.Sub(s.began); step.Abs() >= steadyStep {
		s.since = up
		s.log.Warn("the clock was set: for an hour nothing is deleted, destroyed or shown because time has passed", "by", step.Round(time.Second))
	}
	s.began = began
	return max(0, s.since+steadyFor-up)
}
