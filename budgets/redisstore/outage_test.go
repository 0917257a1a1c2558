package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy/budgets/redisstore"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// guarded is a Degrading store over url, with a deadline shorter than the client's own.
func guarded(t *testing.T, url string, deadline time.Duration) (*budgets.Degrading, *budgettest.Clock) {
	t.Helper()
	clock := budgettest.NewClock()
	local := must.Get(budgets.NewMemory(""))(t)
	d := budgets.NewDegrading(budgets.DegradingOptions{
		Shared: connect(t, redisstore.Options{URL: url, Timeout: time.Hour}), Local: local,
		Share: 250, Deadline: deadline, Clock: clock.Now, Changed: func(error) {},
	})
	return d, clock
}

func hourly(id string, cost, limit int64) memproxy.Charge {
	return charge(id, "acme", cost, memproxy.Line{Reason: memproxy.BudgetHour, Key: "principal/a", Window: memproxy.WindowHour, Limit: limit})
}

func degraded(t *testing.T, d *budgets.Degrading, c memproxy.Charge, granted bool) {
	t.Helper()
	if a, err := d.Charge(t.Context(), c); err != nil || a.Granted != granted || !a.Degraded {
		t.Fatalf("%s: %+v, %v; want granted %v by the share", c.ID, a, err, granted)
	}
}

// recovered makes empty charges until the shared store answers.
func recovered(t *testing.T, d *budgets.Degrading, clock *budgettest.Clock) {
	t.Helper()
	for i := 0; ; i++ {
		clock.Advance(time.Second)
		a := must.Get(d.Charge(t.Context(), hourly(fmt.Sprintf("probe-%d", i), 0, 1000)))(t)
		if !a.Degraded {
			return
		}
	}
}

// uses waits until the shared count is n: debts are replayed in the background, and later if
// the shared store is late once more.
func uses(t *testing.T, d *budgets.Degrading, clock *budgettest.Clock, n int64) {
	t.Helper()
	var last memproxy.Allowance
	for i := range 100_000 {
		a := must.Get(d.Charge(t.Context(), hourly(fmt.Sprintf("look-%d-%d", n, i), 0, 1000)))(t)
		if last = a; a.Degraded {
			clock.Advance(time.Second)
		} else if a.Lines[0].Used == n {
			return
		}
	}
	t.Fatalf("the shared count is %+v, want %d", last, n)
}

// Proves CARD-4, TRL-6: without Redis at the start a share of the limit applies, and
// Redis is used without a restart once it runs.
func TestNoRedisAtTheStart(t *testing.T) {
	if redisServer() == "" {
		t.Skip("no redis-server on PATH")
	}
	dir := must.Get(os.MkdirTemp("", "redis"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	d, clock := guarded(t, "unix://"+path, patient)
	degraded(t, d, hourly("1", 2, 8), true)
	degraded(t, d, hourly("2", 1, 8), false)
	launch(t, "--port", "0", "--unixsocket", path, "--dir", dir)
	recovered(t, d, clock)
	uses(t, d, clock, 2)
}

// Proves TRL-6: a Redis killed under load causes no errors and grants at most one share
// more.
func TestRedisKilledMidLoad(t *testing.T) {
	ring.Slow(t, "kills a server under load")
	server, url := socket(t)
	d, clock := guarded(t, url, patient)
	const limit, share = 400, 100
	var granted, local atomic.Int64
	var once sync.Once
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 10 {
				a, err := d.Charge(context.Background(), hourly(fmt.Sprintf("%d-%d", i, j), 1, limit))
				if err != nil {
					t.Error(err)
					return
				}
				if a.Granted && a.Degraded {
					local.Add(1)
				}
				if a.Granted && granted.Add(1) == 150 {
					once.Do(server.kill)
				}
			}
		})
	}
	wg.Wait()
	if local.Load() != share || granted.Load() > limit+share || granted.Load() < 150 {
		t.Errorf("granted %d, of them %d by the share", granted.Load(), local.Load())
	}
	// It persisted nothing, so it restarts empty and receives the share.
	server.start()
	recovered(t, d, clock)
	uses(t, d, clock, share)
}

// A Redis that is stopped in the middle, and then executes what it had received: a
// charge that was counted both there and locally counts once in the end.
func TestRedisHangsAndGoesOn(t *testing.T) {
	server, url := socket(t)
	d, clock := guarded(t, url, 300*time.Millisecond)
	recovered(t, d, clock)
	must.Do(t, server.cmd.Process.Signal(syscall.SIGSTOP))
	defer func() { _ = server.cmd.Process.Signal(syscall.SIGCONT) }()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if a, err := d.Charge(t.Context(), hourly(fmt.Sprintf("0-%d", i), 1, 60)); err != nil || !a.Granted || !a.Degraded {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	wg.Wait()
	degraded(t, d, hourly("1", 3, 60), true)
	degraded(t, d, hourly("2", 4, 60), true)
	degraded(t, d, hourly("3", 4, 60), false)
	must.Do(t, server.cmd.Process.Signal(syscall.SIGCONT))
	recovered(t, d, clock)
	uses(t, d, clock, 15)
}

// A listener that accepts and never answers, and one that answers garbage.
func TestSomethingElseListens(t *testing.T) {
	for name, says := range map[string]string{"nothing": "", "HTTP": "HTTP/1.1 400 Bad Request\r\n\r\n", "half an answer": "*3\r\n:1\r\n"} {
		t.Run(name, func(t *testing.T) {
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			var wg sync.WaitGroup
			wg.Go(func() {
				var open []net.Conn
				for {
					c, err := l.Accept()
					if err != nil {
						for _, c := range open {
							_ = c.Close()
						}
						return
					}
					open = append(open, c)
					_, _ = c.Write([]byte(says))
				}
			})
			defer wg.Wait()
			defer l.Close()
			d, _ := guarded(t, "redis://"+l.Addr().String(), 50*time.Millisecond)
			degraded(t, d, hourly("1", 2, 8), true)
			degraded(t, d, hourly("2", 1, 8), false)
			if !d.Degraded() {
				t.Error("not degraded")
			}
		})
	}
}

// A read-only Redis counts as unavailable; only the log says so.
func TestReadOnlyRedisIsAway(t *testing.T) {
	_, url := socket(t)
	s := connect(t, redisstore.Options{URL: url})
	charges(t, s, charge("1", "acme", 1), 1)
	must.Do(t, client(t, url).Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
	d, _ := guarded(t, url, patient)
	degraded(t, d, hourly("2", 2, 8), true)
}
