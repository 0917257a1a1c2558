// Package group runs what a process consists of, and stops it in order: nothing
// that works outlives what it works with.
//
// A Group owns every goroutine that is begun by Go, and what is given to Own,
// each in a stage. It stops stage by stage; within a stage, what was added last
// is stopped first. A part is told to stop when all of the stages before have
// ended, or their time is over.
package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Stage is a step of stopping. Each has a time of its own, so that one that
// hangs takes none from the next.
type Stage struct {
	Name string
	Time time.Duration // it may take; beyond it the next begins
	// Drain has everything of the stage stopped at once, and its context end
	// with the drain instead of with Time: servers that finish requests.
	Drain bool
}

// A Ticker ticks every d until it is stopped.
type Ticker func(d time.Duration) (tick <-chan time.Time, stop func())

// systemTicker is the system's.
func systemTicker(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// DrainTime is how long requests in flight are waited for, and CutTime how long
// those that are cut off then may take to record that.
const (
	DrainTime = 12 * time.Second
	CutTime   = 3 * time.Second
)

// Options set up a Group.
type Options struct {
	Stages []Stage // first to last to stop
	// Loops is the stage, an index, by whose end all that Go began has returned.
	Loops int
	// Drain is how long Run lets requests in flight finish; 0: DrainTime.
	Drain  time.Duration
	Ticker Ticker // nil: the system's
	Log    *slog.Logger
	// Patience is how many times as long a stage may take; 0 is once.
	Patience time.Duration
}

// A Group is the parts of a process. Its methods may be called at any time from
// any goroutine; what is begun once the loops have been stopped is not.
type Group struct {
	opt    Options
	ctx    context.Context
	cancel context.CancelFunc
	failed chan error // the first failure of a server

	mu      sync.Mutex
	stops   [][]func(context.Context) error // by stage
	ended   bool
	running map[string]int
	idle    chan struct{} // closed when the last loop has returned after the stop
}

// New returns a group without parts. What it runs has ctx's values, and ends
// when ctx does.
func New(ctx context.Context, opt Options) *Group {
	if opt.Drain == 0 {
		opt.Drain = DrainTime
	}
	if opt.Ticker == nil {
		opt.Ticker = systemTicker
	}
	g := &Group{opt: opt, running: map[string]int{}, idle: make(chan struct{}), failed: make(chan error, 1), stops: make([][]func(context.Context) error, len(opt.Stages))}
	g.ctx, g.cancel = context.WithCancel(ctx)
	g.Own(opt.Loops, g.stopLoops)
	return g
}

// Context ends when the loops are stopped.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs f until the loops are stopped; f returns soon after its context ends.
func (g *Group) Go(name string, f func(context.Context)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.running[name]++
	go func() {
		defer g.returned(name)
		f(g.ctx)
	}()
}

// Tick is Go for what is done again and again: it has a ticker of its own.
func (g *Group) Tick(name string, every time.Duration, f func(context.Context, <-chan time.Time)) {
	g.Go(name, func(ctx context.Context) {
		tick, stop := g.opt.Ticker(every)
		defer stop()
		f(ctx, tick)
	})
}

// Own has stop called in a stage of stopping.
func (g *Group) Own(stage int, stop func(context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stops[stage] = append(g.stops[stage], stop)
}

// Serve owns a server that runs: stop is called in a stage, and Run ends when
// failed receives.
func (g *Group) Serve(stage int, name string, stop func(context.Context) error, failed <-chan error) {
	g.Own(stage, stop)
	g.Go("listener "+name, func(ctx context.Context) {
		select {
		case err := <-failed:
			select {
			case g.failed <- fmt.Errorf("%s: %w", name, err):
			default: // one is enough
			}
		case <-ctx.Done():
		}
	})
}

// Run waits until ctx ends or a server fails, and then closes the group.
func (g *Group) Run(ctx context.Context) (err error) {
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

// Close stops everything in the order of the stages. ctx bounds the drain only:
// the other stages have their own time. Once it has returned, nothing of the
// group runs, or the error names what does.
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
		return atOnce(drain, stops)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(drain), stage.Time*max(1, g.opt.Patience))
	defer cancel()
	var errs []error
	for _, f := range slices.Backward(stops) {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

func atOnce(ctx context.Context, stops []func(context.Context) error) error {
	errs := make([]error, len(stops))
	var all sync.WaitGroup
	for i, f := range stops {
		all.Go(func() { errs[i] = f(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (g *Group) returned(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[name]--; g.running[name] == 0 {
		delete(g.running, name)
	}
	if g.ended && len(g.running) == 0 {
		close(g.idle)
	}
}

// stopLoops ends the loops and waits until all have returned. The error names
// those that had not when ctx ended.
func (g *Group) stopLoops(ctx context.Context) error {
	g.cancel()
	g.mu.Lock()
	if !g.ended {
		g.ended = true
		if len(g.running) == 0 {
			close(g.idle)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.idle:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.running) == 0 {
		return nil
	}
	return fmt.Errorf("still running: %s", strings.Join(slices.Sorted(maps.Keys(g.running)), ", "))
}
