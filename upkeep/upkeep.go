package upkeep

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/memproxy/memproxy/internal/wait"
)

// A Job is recurring background work.
type Job struct {
	Name string
	// Every is the longest time between two rounds. Zero: only when woken, due or requested.
	Every time.Duration
	// Wake starts a round. A signal that was sent before the job was started counts, so
	// that a job with a full channel begins with a round.
	Wake <-chan struct{}
	// Once runs a round. It returns soon after its context ends. Due is not a failure.
	Once func(ctx context.Context, now time.Time) error
}

// Due reports that a round succeeded and that the next one is due before Every.
type Due struct{ In time.Duration }

// Error implements error.
func (d Due) Error() string { return fmt.Sprintf("due again in %v", d.In) }

// A Signal wakes a job. Signals that arrive while one is pending are merged.
type Signal chan struct{}

// NewSignal returns a signal that has not been sent.
func NewSignal() Signal { return make(Signal, 1) }

// NewPendingSignal returns a signal that has been sent: a job that it wakes begins with a
// round.
func NewPendingSignal() Signal {
	s := NewSignal()
	s.Send()
	return s
}

// Send sends the signal. It never blocks.
func (s Signal) Send() { wait.Wake(s) }

// The errors of Jobs.Once that are not errors of the job.
var (
	ErrUnknown = errors.New("upkeep: no such job")
	ErrEnded   = errors.New("upkeep: the process stops")
)

// A failed job is repeated after firstRetry. The pause doubles with every consecutive
// failure, up to the next regular round: Every, or longestRetry if that is zero.
const (
	firstRetry   = time.Second
	longestRetry = time.Minute
)

// Options are the dependencies of Jobs.
type Options struct {
	// Begin runs a function in the background until its context ends. The process waits
	// for the function before it closes what jobs use.
	Begin func(name string, run func(context.Context))
	// Ticker returns a channel that ticks every d until it is stopped. Nil is the system's.
	Ticker func(d time.Duration) (tick <-chan time.Time, stop func())
	Clock  func() time.Time
	Log    *slog.Logger
}

// Jobs are the background jobs of a process.
type Jobs struct {
	opt Options
	mu  sync.Mutex
	all []*runner
}

// New returns Jobs without any job.
func New(opt Options) *Jobs {
	if opt.Ticker == nil {
		opt.Ticker = func(d time.Duration) (<-chan time.Time, func()) {
			t := time.NewTicker(d)
			return t.C, t.Stop
		}
	}
	return &Jobs{opt: opt}
}

// Start starts a job, whose name must be unique.
func (j *Jobs) Start(job Job) {
	r := &runner{Job: job, opt: &j.opt, requests: make(chan roundRequest), ended: make(chan struct{})}
	j.mu.Lock()
	j.all = append(j.all, r)
	j.mu.Unlock()
	j.opt.Begin(job.Name, r.run)
}

// All returns the names of the jobs and their intervals.
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

// Once runs a round of a job at the given time and returns its error. The round
// continues when ctx ends, and stops with the process.
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
