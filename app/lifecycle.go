package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A stopStage is a step of stopping. Stages are over in their order, each within
// its own time, so that one that hangs cannot take the others' from them: a
// record that is written while requests drain is on disk whatever they do.
type stopStage int

// The stages of stopping, first to last. Nothing that works outlives what it
// works with.
const (
	// stageListeners: nothing is accepted any more, and what is in flight is
	// finished; what is not by the end of the drain is cut off and waited for.
	stageListeners stopStage = iota
	// stageSending: approved writes and rollbacks that are being sent are
	// noted; those that take longer are cut off, and the next process asks the
	// backend what became of them.
	stageSending
	// stageLoops: everything that goes on in the background has returned.
	stageLoops
	// stageProxies: what outlives its request (settling runs, asking what
	// became of writes) has returned, and connections to backends are closed.
	stageProxies
	// stageLater: what callers did not wait for is done.
	stageLater
	// stageNotes: what is known only now is written down.
	stageNotes
	// stageStores: budgets, ledger and audit log are flushed and closed, the
	// newest first, so that the log, which all others write to, is the last.
	stageStores
	// stageTelemetry: what was measured is sent.
	stageTelemetry
	stopStages
)

// stageTime is how long a stage may take. Together with the drain they stay
// within the 30 s that Kubernetes gives by default.
var stageTime = [stopStages]time.Duration{
	stageListeners: drainTime + cutTime, stageSending: 3 * time.Second, stageLoops: 2 * time.Second, stageProxies: 2 * time.Second,
	stageLater: 2 * time.Second, stageNotes: time.Second, stageStores: 3 * time.Second, stageTelemetry: time.Second,
}

// drainTime is how long requests in flight are waited for. cutTime is how long
// those that were cut off then may take to note that.
const (
	drainTime = 12 * time.Second
	cutTime   = 3 * time.Second
)

func (s stopStage) String() string {
	return [stopStages]string{"listeners", "sending", "loops", "proxies", "later", "notes", "stores", "telemetry"}[s]
}

// loops owns every goroutine that a sidecar begins itself. Nothing else does:
// what is begun by it is over before a store closes.
type loops struct {
	ctx    context.Context
	cancel context.CancelFunc
	ticker Ticker

	mu      sync.Mutex
	ended   bool
	running map[string]int
	idle    chan struct{} // closed when the last one has returned after stop
}

// begin begins something in the background, as loops.begin does.
type begin = func(name string, f func(context.Context))

// A ticker ticks every d until it is stopped.
type Ticker func(d time.Duration) (tick <-chan time.Time, stop func())

// realTicker is the system's.
func realTicker(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

func newLoops(ctx context.Context) *loops {
	l := &loops{ticker: realTicker, running: map[string]int{}, idle: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// begin runs f until the loops are stopped; f returns soon after its context
// ends. Once they are stopped it does nothing.
func (l *loops) begin(name string, f func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.running[name]++
	go func() {
		defer l.returned(name)
		f(l.ctx)
	}()
}

// ticking runs f with a ticker of its own.
func (l *loops) ticking(name string, every time.Duration, f func(context.Context, <-chan time.Time)) {
	l.begin(name, func(ctx context.Context) {
		tick, stop := l.ticker(every)
		defer stop()
		f(ctx, tick)
	})
}

func (l *loops) returned(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[name]--; l.running[name] == 0 {
		delete(l.running, name)
	}
	if l.ended && len(l.running) == 0 {
		close(l.idle)
	}
}

// stop ends the loops and waits until all have returned. The error names those
// that had not when ctx ended.
func (l *loops) stop(ctx context.Context) error {
	l.cancel()
	l.mu.Lock()
	if !l.ended {
		l.ended = true
		if len(l.running) == 0 {
			close(l.idle)
		}
	}
	l.mu.Unlock()
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.running) == 0 {
		return nil
	}
	return fmt.Errorf("still running: %s", strings.Join(slices.Sorted(maps.Keys(l.running)), ", "))
}

// onStop has f run in a stage of stopping; within a stage, what was registered
// last is stopped first.
func (s *App) onStop(at stopStage, f func(context.Context) error) {
	s.stops[at] = append(s.stops[at], f)
}

// close stops everything in the order of the stages. ctx bounds the drain only:
// what comes after has its own time. Once it has returned, nothing of the
// sidecar runs, or the error says what does.
func (s *App) Close(ctx context.Context) error {
	var errs []error
	for at := range stopStages {
		if err := s.stop(ctx, at); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}

// stop stops a stage: the listeners all at once, everything else in turn.
func (s *App) stop(drain context.Context, at stopStage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(drain), stageTime[at]*max(1, s.patience))
	defer cancel()
	stops := s.stops[at]
	s.stops[at] = nil
	if at == stageListeners {
		return atOnce(drain, stops)
	}
	var errs []error
	for _, f := range slices.Backward(stops) {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

// atOnce does all at once.
func atOnce(ctx context.Context, do []func(context.Context) error) error {
	errs := make([]error, len(do))
	var all sync.WaitGroup
	for i, f := range do {
		all.Go(func() { errs[i] = f(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// abort closes what an assembly that failed had opened.
func (s *App) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Close(ctx) // the error that led here is the one to show
}
