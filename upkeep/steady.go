package upkeep

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// steadyFor is how long a clock has to run evenly before it is trusted with any
	// time: NTP corrects a clock that is wrong at the start within minutes.
	steadyFor = time.Hour
	// steadyStep is the smallest step that counts as one.
	steadyStep = time.Minute
)

// Steady says whether a clock can be trusted for what cannot be undone: deleting,
// destroying or showing something because a time has passed. It can once it has run for
// that time, or an hour if that is shorter, without a step, counted from the start of the
// process. Until then what the ledger knows of earlier processes counts.
type Steady struct {
	clock func() time.Time
	up    func() time.Duration
	ran   func(context.Context, time.Duration) (time.Time, error)
	log   *slog.Logger

	mu    sync.Mutex
	began time.Time     // start of up, by the present clock
	since time.Duration // of up: from when it has been even

	noting sync.Mutex
	noted  time.Duration // of up: what the ledger has
}

// NewSteady watches a clock. up returns how long the process has been running, which
// setting the clock does not change. ran adds to how long processes ran, and returns a
// time that has certainly come (ledger.Upkeep.Ran).
func NewSteady(clock func() time.Time, up func() time.Duration, ran func(context.Context, time.Duration) (time.Time, error), log *slog.Logger) *Steady {
	s := &Steady{clock: clock, up: up, ran: ran, log: log}
	s.began = s.beginning(up())
	return s
}

// beginning is what the clock would have shown when up was zero.
func (s *Steady) beginning(up time.Duration) time.Time { return s.clock().Round(0).Add(-up) }

// Wait returns how long it takes until the clock can be trusted to have measured a
// duration; zero: it can now.
func (s *Steady) Wait(passed time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.up()
	began := s.beginning(up)
	if step := began.Sub(s.began); step.Abs() >= steadyStep {
		s.since = up
		s.log.Warn("the clock was set: nothing is deleted, destroyed or shown because time has passed until the clock has run for an hour, or for the configured time", "by", step.Round(time.Second))
	}
	s.began = began
	return max(0, s.since+min(passed, steadyFor)-up)
}

// Came returns the time to compare with for items that end after age: now if the clock
// can be trusted for that long, else a time that has certainly passed, zero if none is
// known.
func (s *Steady) Came(ctx context.Context, now time.Time, age time.Duration) (time.Time, error) {
	if s.Wait(age) == 0 {
		return now, nil
	}
	return s.note(ctx)
}

// Note records in the ledger how long this process has run, for processes that are too
// short-lived to trust the clock by themselves.
func (s *Steady) Note(ctx context.Context) error {
	_, err := s.note(ctx)
	return err
}

func (s *Steady) note(ctx context.Context) (time.Time, error) {
	s.noting.Lock()
	defer s.noting.Unlock()
	up := s.up()
	came, err := s.ran(ctx, up-s.noted)
	if err == nil {
		s.noted = up
	}
	return came, err
}
