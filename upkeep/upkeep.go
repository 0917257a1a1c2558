package upkeep

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"
)

// A Job is work that is done again and again.
type Job struct {
	Name string
	// Every is the longest time between two rounds. Zero: only when it is woken,
	// due or asked for.
	Every time.Duration
	// Wake has a round made at once. What was sent before the job was started
	// counts, so that a signal that is full makes it begin with a round.
	Wake <-chan struct{}
	// Once makes a round. It returns soon after its context ends. An error of
	// type Due is none.
	Once func(ctx context.Context, now time.Time) error
}

// Due says that a round went well and that there is something to do again in
// some time, sooner than Every.
type Due struct{ In time.Duration }

// Error implements error.
func (d Due) Error() string { return fmt.Sprintf("due again in %v", d.In) }

// A Signal wakes a job. Signals that come while one is waiting are one.
type Signal chan struct{}

// NewSignal returns one that was not sent.
func NewSignal() Signal { return make(Signal, 1) }

// AtOnce returns one that was: a job that it wakes begins with a round.
func AtOnce() Signal {
	s := NewSignal()
	s.Send()
	return s
}

// Send never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // a round is about to begin that sees what this is about
	}
}

// Errors of Jobs.Once that are not the job's.
var (
	ErrUnknown = errors.New("upkeep: no such job")
	ErrEnded   = errors.New("upkeep: the process stops")
)

// A job that failed is tried again after firstRetry, which doubles with every
// failure in a row, until that is no sooner than its next turn: Every, or
// longestRetry where that is zero.
const (
	firstRetry   = time.Second
	longestRetry = time.Minute
)

// Options say what jobs run with.
type Options struct {
	// Begin runs something in the background until its context ends, and is
	// waited for by the process before it closes what jobs use.
	Begin func(name string, run func(context.Context))
	// Ticker ticks every d until it is stopped. Nil is the system's.
	Ticker func(d time.Duration) (tick <-chan time.Time, stop func())
	Clock  func() time.Time
	Log    *slog.Logger
}

// Jobs are those of a process.
type Jobs struct {
	opt Options
	mu  sync.Mutex
	all []*runner
}

// New returns none.
func New(opt Options) *Jobs {
	if opt.Ticker == nil {
		opt.Ticker = func(d time.Duration) (<-chan time.Time, func()) {
			t := time.NewTicker(d)
			return t.C, t.Stop
		}
	}
	return &Jobs{opt: opt}
}

// Start begins a job. Its name is its own.
func (j *Jobs) Start(job Job) {
	r := &runner{Job: job, opt: &j.opt, asked: make(chan asked), ended: make(chan struct{})}
	j.mu.Lock()
	j.all = append(j.all, r)
	j.mu.Unlock()
	j.opt.Begin(job.Name, r.run)
}

// All are the names of the jobs and how often they are done.
func (j *Jobs) All() iter.Seq2[string, time.Duration] {
	j.mu.Lock()
	all := j.all
	j.mu.Unlock()
	return func(yield func(string, time.Duration) bool) {
		for _, r := range all {
			if !yield(r.Name, r.Every) {
				return
			}
		}
	}
}

// Once has a round of a job made, at a time that it takes for now, and returns
// what it returned: nil when it went well. The round outlives ctx, and ends
// with the process.
func (j *Jobs) Once(ctx context.Context, name string, now time.Time) error {
	j.mu.Lock()
	all := j.all
	j.mu.Unlock()
	for _, r := range all {
		if r.Name == name {
			return r.ask(ctx, now)
		}
	}
	return fmt.Errorf("%w: %q", ErrUnknown, name)
}
