package upkeep_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/upkeep"
)

// process runs jobs like a process: what it began has ended when stop returns.
type process struct {
	*upkeep.Jobs
	log  bytes.Buffer
	stop func()
}

func start(t *testing.T, jobs ...upkeep.Job) *process {
	p := &process{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	p.Jobs = upkeep.New(upkeep.Options{
		Begin: func(_ string, run func(context.Context)) { all.Go(func() { run(ctx) }) },
		Clock: time.Now, Log: slog.New(slog.NewTextHandler(&p.log, nil)),
	})
	p.stop = func() { cancel(); all.Wait() }
	for _, j := range jobs {
		p.Start(j)
	}
	return p
}

// rounds records when a job runs, since its start, and returns errors from a list.
type rounds struct {
	begun time.Time
	at    []time.Duration
	fail  []error
}

func (r *rounds) once(context.Context, time.Time) error {
	if r.at = append(r.at, time.Since(r.begun)); len(r.at) <= len(r.fail) {
		return r.fail[len(r.at)-1]
	}
	return nil
}

func seconds(list ...float64) (out []time.Duration) {
	for _, s := range list {
		out = append(out, time.Duration(s*float64(time.Second)))
	}
	return out
}

// A job runs after each Every, and at once when woken; signals are merged. Without
// Every it runs only when woken.
//
// Proves EDGE-14.
func TestTurns(t *testing.T) {
	away := errors.New("away")
	sent := func(at ...time.Duration) func(upkeep.Signal) {
		return func(s upkeep.Signal) {
			for _, d := range at {
				time.AfterFunc(d, s.Send)
			}
		}
	}
	for name, tc := range map[string]struct {
		every time.Duration
		wake  func(upkeep.Signal)
		fail  []error
		want  []time.Duration // within 100 s
	}{
		"every":                          {40 * time.Second, sent(), nil, seconds(40, 80)},
		"never":                          {0, sent(), nil, nil},
		"from the start, and no more":    {60 * time.Second, func(s upkeep.Signal) { s.Send(); s.Send() }, nil, seconds(0, 60)},
		"woken":                          {60 * time.Second, sent(7*time.Second, 9*time.Second), nil, seconds(7, 9, 60)},
		"only woken":                     {0, sent(7 * time.Second), nil, seconds(7)},
		"failing":                        {60 * time.Second, upkeep.Signal.Send, []error{away, away, away, away}, seconds(0, 1, 3, 7, 15, 60)},
		"failing for long, and its turn": {20 * time.Second, sent(), slices.Repeat([]error{away}, 9), seconds(20, 21, 23, 27, 35, 40, 60, 80)},
		"failing without turns":          {0, upkeep.Signal.Send, slices.Repeat([]error{away}, 7), seconds(0, 1, 3, 7, 15, 31, 63)},
		"due":                            {60 * time.Second, upkeep.Signal.Send, []error{upkeep.Due{In: 5 * time.Second}}, seconds(0, 5, 60)},
		"due later than its turn":        {10 * time.Second, sent(), []error{upkeep.Due{In: 95 * time.Second}}, seconds(10, 20, 30, 40, 50, 60, 70, 80, 90)},
		"due, and nothing by then":       {60 * time.Second, sent(0, 2*time.Second), []error{upkeep.Due{In: 5 * time.Second}}, seconds(0, 2, 60)},
		"overdue":                        {60 * time.Second, upkeep.Signal.Send, []error{upkeep.Due{In: -time.Second}}, seconds(0, 0.001, 60)},
		"due, but a part failed":         {60 * time.Second, upkeep.Signal.Send, []error{errors.Join(upkeep.Due{In: 5 * time.Second}, away)}, seconds(0, 1, 60)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, wake := &rounds{begun: time.Now(), fail: tc.fail}, upkeep.NewSignal()
				tc.wake(wake)
				p := start(t, upkeep.Job{Name: "j", Every: tc.every, Wake: wake, Once: r.once})
				time.Sleep(99*time.Second + 500*time.Millisecond)
				p.stop()
				expect.List(t, r.at, tc.want)
			})
		})
	}
}

// A caller that requests a round gets one at its time, with its error, while no other
// runs. A round outlives its caller. Due is not a failure.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, asked atomic.Int32
		var ended atomic.Bool
		away, long := errors.New("away"), time.Now().Add(1000*time.Hour)
		wake := upkeep.NewSignal()
		p := start(t, upkeep.Job{Name: "j", Every: time.Second, Wake: wake, Once: func(_ context.Context, now time.Time) error {
			expect.Equal(t, running.Add(1) <= 1, true, "two rounds at once")
			time.Sleep(700 * time.Millisecond)
			running.Add(-1)
			if now.Equal(long) && asked.Add(1) > 3 {
				return away
			}
			return nil
		}}, upkeep.Job{Name: "other", Once: func(context.Context, time.Time) error { return upkeep.Due{In: time.Hour} }},
			upkeep.Job{Name: "long", Once: func(context.Context, time.Time) error { time.Sleep(time.Second); ended.Store(true); return nil }})
		defer p.stop()
		ask := func(name string) error { return p.Once(t.Context(), name, long) }
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				expect.OK(t, ask("j"))
			})
			wake.Send()
		}
		all.Wait()
		expect.Equal(t, asked.Load(), 3)
		expect.Is(t, ask("j"), away, "what came of it is not told")
		expect.OK(t, ask("other"))
		expect.Is(t, ask("none"), upkeep.ErrUnknown)
		hurried, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		expect.Is(t, p.Once(hurried, "long", long), context.DeadlineExceeded)
		if time.Sleep(time.Second); !ended.Load() {
			t.Error("it was not brought to its end")
		}
		names := []string{}
		for name, every := range p.All() {
			names = append(names, name+" "+every.String())
		}
		expect.List(t, names, []string{"j 1s", "other 0s", "long 0s"})
	})
}

// A stop interrupts a round and waits for it; callers whose rounds will not run return.
//
// Proves EDGE-14.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		returned := false
		p := start(t, upkeep.Job{Name: "j", Every: time.Minute, Once: func(ctx context.Context, _ time.Time) error {
			<-ctx.Done()
			time.Sleep(time.Second) // work in progress
			returned = true
			return ctx.Err()
		}})
		asked := make(chan error, 2)
		go func() { asked <- p.Once(t.Context(), "j", time.Now()) }()
		synctest.Wait()
		go func() { asked <- p.Once(t.Context(), "j", time.Now()) }()
		synctest.Wait()
		if p.stop(); !returned {
			t.Error("the round was not waited for")
		}
		errs := []error{<-asked, <-asked}
		expect.Is(t, errors.Join(errs...), context.Canceled, errs)
		expect.Is(t, errors.Join(errs...), upkeep.ErrEnded, errs)
		expect.Is(t, p.Once(t.Context(), "j", time.Now()), upkeep.ErrEnded)
		expect.Equal(t, p.log.Len(), 0, "a stop is no failure", p.log.String())
	})
}

// A failure is logged once, until it changes or the job succeeds.
func TestFailuresAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := errors.New("first"), errors.New("second")
		r := &rounds{begun: time.Now(), fail: []error{a, a, b, b, nil, b}}
		p := start(t, upkeep.Job{Name: "j", Every: time.Second, Once: r.once})
		time.Sleep(10 * time.Second)
		p.stop()
		expect.Text(t, p.log.String()).Times(1, "error=first").Times(2, "error=second").Has("level=ERROR", "job=j")
	})
}

// A round answers every signal that was sent before it began: after a requested round a job
// is idle.
//
// Proves EDGE-14.
func TestARoundAnswersTheSignalsBeforeIt(t *testing.T) {
	for range 32 { // the order in which a job sees a signal and a request is random
		synctest.Test(t, func(t *testing.T) {
			wake, over := upkeep.NewPendingSignal(), make(chan struct{})
			var requested bool // whether the last round was requested
			p := start(t, upkeep.Job{Name: "a job", Wake: wake, Once: func(_ context.Context, now time.Time) error {
				requested = now.IsZero()
				<-over
				return nil
			}})
			defer p.stop()
			synctest.Wait() // the first round has begun
			wake.Send()
			go func() { expect.OK(t, p.Once(t.Context(), "a job", time.Time{})) }()
			synctest.Wait()
			close(over)
			synctest.Wait()
			expect.Equal(t, requested, true)
		})
	}
}
