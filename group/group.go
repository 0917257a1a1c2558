// Package group owns the goroutines and servers of a process and stops them in order, so
// that no part outlives what it depends on.
//
// A Group stops in stages. Within a stage the part that was added last is stopped first,
// or all parts are stopped concurrently (Drain). A stage begins when the previous ones
// have ended or exceeded their time.
package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/memproxy/memproxy/internal/wait"
)

// Stage is a step of a stop. Each has its own timeout, so that a part that hangs takes no
// time from later stages.
type Stage struct {
	Name string
	Time time.Duration // timeout, after which the next stage begins
	// Drain stops the parts concurrently, with the timeout of the drain's context in
	// place of Time. It is for servers that finish their requests.
	Drain bool
}

// Ticker ticks every d until it is stopped.
type Ticker func(d time.Duration) (tick <-chan time.Time, stop func())

// DrainTime is how long requests in flight may take to finish. CutTime is how long those
// that are then cut off may take to record that.
const (
	DrainTime = 12 * time.Second
	CutTime   = 3 * time.Second
)

// Options configure a Group.
type Options struct {
	Stages []Stage // in the order of stopping
	// Loops is the index of the stage in which the goroutines started by Go are stopped.
	Loops int
	// Drain is the timeout of the drain in Run; 0 is DrainTime.
	Drain  time.Duration
	Ticker Ticker // nil is the system's ticker
	Log    *slog.Logger
	// Patience multiplies the timeouts of the stages and of the drain; 0 counts as 1.
	Patience time.Duration
}

// Group is the parts of a process. It is safe for concurrent use. Go has no effect once
// the loops were stopped.
type Group struct {
	opt    Options
	ctx    context.Context
	cancel context.CancelFunc
	failed chan error // receives the first failure of a server

	mu      sync.Mutex
	stops   [][]func(context.Context) error // by stage
	ended   bool
	running map[string]int
	loops   sync.WaitGroup
}

// New returns an empty group. Its context has ctx's values and ends with ctx.
func New(ctx context.Context, opt Options) *Group {
	opt.Patience = max(1, opt.Patience)
	opt.Drain = cmp.Or(opt.Drain, DrainTime) * opt.Patience
	if opt.Ticker == nil {
		opt.Ticker = func(d time.Duration) (<-chan time.Time, func()) {
			t := time.NewTicker(d)
			return t.C, t.Stop
		}
	}
	g := &Group{opt: opt, running: map[string]int{}, failed: make(chan error, 1), stops: make([][]func(context.Context) error, len(opt.Stages))}
	g.ctx, g.cancel = context.WithCancel(ctx)
	g.Own(opt.Loops, g.stopLoops)
	return g
}

// Context returns a context that ends when the loops are stopped.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs f in a goroutine until the loops are stopped. f must return soon after its
// context ends.
func (g *Group) Go(name string, f func(context.Context)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.running[name]++
	g.loops.Go(func() {
		defer g.returned(name)
		f(g.ctx)
	})
}

// Tick is Go with a ticker.
func (g *Group) Tick(name string, every time.Duration, f func(context.Context, <-chan time.Time)) {
	g.Go(name, func(ctx context.Context) {
		tick, stop := g.opt.Ticker(every)
		defer stop()
		f(ctx, tick)
	})
}

// Own adds a stop function to a stage.
func (g *Group) Own(stage int, stop func(context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stops[stage] = append(g.stops[stage], stop)
}

// Serve adds a running server to a stage. Run ends when failed receives an error.
func (g *Group) Serve(stage int, name string, stop func(context.Context) error, failed <-chan error) {
	g.Own(stage, stop)
	g.Go("listener "+name, func(ctx context.Context) {
		select {
		case err := <-failed:
			select {
			case g.failed <- fmt.Errorf("%s: %w", name, err):
			default: // only the first failure is needed
			}
		case <-ctx.Done():
		}
	})
}

// Run waits until ctx ends or a server fails, then closes the group. From now on a log that
// nobody reads any more does not end the process.
func (g *Group) Run(ctx context.Context) (err error) {
	signal.Ignore(syscall.SIGPIPE)
	select {
	case <-ctx.Done():
	case err = <-g.failed:
		g.opt.Log.Error("a listener failed", "error", err)
	}
	g.opt.Log.Info("stopping")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.Drain)
	defer cancel()
	return errors.Join(err, g.Close(drain))
}

// Close stops all stages in order. ctx limits the drain only. Afterwards nothing of the
// group runs, or the error names what still does.
func (g *Group) Close(ctx context.Context) error {
	var errs []error
	for at, stage := range g.opt.Stages {
		if err := g.stop(ctx, at, stage); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", stage.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (g *Group) stop(drain context.Context, at int, stage Stage) error {
	g.mu.Lock()
	stops := g.stops[at]
	g.stops[at] = nil
	g.mu.Unlock()
	if stage.Drain {
		errs := make([]error, len(stops))
		var all sync.WaitGroup
		for i, f := range stops {
			all.Go(func() { errs[i] = f(drain) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(drain), stage.Time*g.opt.Patience)
	defer cancel()
	var errs []error
	for _, f := range slices.Backward(stops) {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

func (g *Group) returned(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[name]--; g.running[name] == 0 {
		delete(g.running, name)
	}
}

// stopLoops cancels the loops and waits for them. The error names the loops that have not
// returned when ctx ends.
func (g *Group) stopLoops(ctx context.Context) error {
	g.cancel()
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	err := wait.For(ctx, g.loops.Wait)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil || len(g.running) == 0 {
		return nil
	}
	return fmt.Errorf("still running: %s", strings.Join(slices.Sorted(maps.Keys(g.running)), ", "))
}
