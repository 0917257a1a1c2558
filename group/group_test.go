package group_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Stages of the tests.
const (
	servers = iota
	loops
	lanes
	stores
)

func newGroup(ctx context.Context, log *bytes.Buffer, patience time.Duration) *group.Group {
	return group.New(ctx, group.Options{Patience: patience, Loops: loops, Log: slog.New(slog.NewTextHandler(log, nil)), Stages: []group.Stage{
		servers: {Name: "servers", Drain: true}, loops: {Name: "loops", Time: time.Second}, lanes: {Name: "lanes", Time: 2 * time.Second}, stores: {Name: "stores", Time: time.Second},
	}})
}

// Stages stop in order, the newest part of a stage first. Each has its own time: a part
// that hangs takes none from later stages.
//
// Proves EDGE-15.
func TestStagesOfAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t.Context(), new(bytes.Buffer), 2)
		var order []string
		note := func(what string) func(context.Context) error {
			return func(ctx context.Context) error {
				expect.OK(t, ctx.Err(), what, "has no time")
				order = append(order, what)
				return nil
			}
		}
		g.Own(stores, note("the older store"))
		g.Own(stores, note("the newer store"))
		g.Own(lanes, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		g.Own(servers, note("a server"))
		hung := make(chan struct{})
		g.Go("the hanging one", func(context.Context) { <-hung })
		g.Go("the other", func(ctx context.Context) { <-ctx.Done(); order = append(order, "a loop") })
		began := time.Now()
		err := g.Close(t.Context())
		if took := time.Since(began); took != 2*3*time.Second {
			t.Errorf("it took %v, want twice the time of the two stages that hang", took)
		}
		close(hung)
		expect.ErrorHas(t, err, "stopping loops: still running: the hanging one")
		expect.Text(t, err.Error()).Has("stopping lanes").Lacks("the other")
		expect.List(t, order, []string{"a server", "a loop", "the newer store", "the older store"})
		g.Go("late", func(context.Context) { t.Error("begun after the end") })
		synctest.Wait()
	})
}

// A group runs until its context ends or a server fails, drains requests, and leaves
// nothing running.
//
// Proves EDGE-15.
func TestRunEndsWithItsContextOrAServer(t *testing.T) {
	broken := errors.New("the socket is gone")
	for patience, fails := range []bool{false, false, true} {
		t.Run(fmt.Sprintf("fails %v, patience %d", fails, patience), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				g := newGroup(t.Context(), &log, time.Duration(patience))
				failed := make(chan error, 1)
				var drained time.Duration
				g.Serve(servers, "admin", func(ctx context.Context) error {
					began := time.Now()
					<-ctx.Done()
					drained = time.Since(began)
					return nil
				}, failed)
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan error)
				go func() { over <- g.Run(ctx) }()
				synctest.Wait()
				if fails {
					failed <- broken
				} else {
					cancel()
				}
				err := <-over
				cancel()
				expect.Equal(t, drained, group.DrainTime*time.Duration(max(1, patience)), "requests had")
				if errors.Is(err, broken) != fails || fails && !strings.Contains(err.Error(), "admin: ") || !fails && err != nil {
					t.Errorf("%v", err)
				}
				if !strings.Contains(log.String(), "stopping") || strings.Contains(log.String(), "a listener failed") != fails {
					t.Errorf("logged: %s", &log)
				}
			})
		})
	}
}

// A process whose log nobody reads any more still stops in order: the test's own process, run
// once more, logs to a pipe without a reader.
//
// Proves EDGE-15.
func TestProcessesOutliveTheReaderOfTheirLog(t *testing.T) {
	const logged = "GROUP_TEST_LOGS"
	if os.Getenv(logged) != "" {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		g := group.New(ctx, group.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Stages: []group.Stage{servers: {Name: "servers", Drain: true}}})
		expect.OK(t, g.Run(ctx))
		return
	}
	reader, writer, err := os.Pipe()
	must.Do(t, errors.Join(err, reader.Close()))
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Stderr, again.Env = writer, append(os.Environ(), logged+"=1")
	expect.OK(t, again.Run())
	must.Do(t, writer.Close())
}
