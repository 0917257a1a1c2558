package budgettest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// callers is the number of concurrent goroutines.
const callers = 64

// at runs f concurrently, once for each caller.
func at(f func(caller int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range callers {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func exactUnderLoad(t *testing.T, b *bench) {
	const limit, each = 100, 4 // 256 charges, room for 100
	now := b.Now()
	var granted, over, warned atomic.Int64
	at(func(i int) {
		for j := range each {
			a, err := b.store.Charge(context.Background(), memproxy.Charge{
				ID: fmt.Sprintf("load-%d-%d", i, j), Tenant: "acme", Cost: 1, Time: now,
				Lines: []memproxy.Line{hour("principal/a", limit), total("principal/a", limit*10)},
			})
			if err != nil {
				t.Error(err)
				return
			}
			if a.Granted {
				granted.Add(1)
			}
			if a.Lines[0].Used > limit {
				over.Add(1)
			}
			if a.Lines[0].Warn {
				warned.Add(1)
			}
		}
	})
	if granted.Load() != limit || over.Load() != 0 || warned.Load() != 1 {
		t.Errorf("granted %d of %d, %d answers above the limit, %d warnings", granted.Load(), limit, over.Load(), warned.Load())
	}
	b.refuse(b.ask(1, hour("principal/a", limit), total("principal/a", limit*10)), 0, limit, limit)
}

func sameIDUnderLoad(t *testing.T, b *bench) {
	line := total("principal/a", 5)
	c := b.ask(3, line)
	at(func(int) {
		if a, err := b.store.Charge(context.Background(), c); err != nil || !a.Granted {
			t.Errorf("granted %v: %v", a.Granted, err)
		}
	})
	b.grant(b.ask(0, line), 3)
	at(func(int) {
		expect.OK(t, b.store.Release(context.Background(), c))
	})
	b.grant(b.ask(5, line), 5)
}

// Concurrent charges over two lines in either order, with different costs: both lines
// end with the same count.
func linesAgreeUnderLoad(t *testing.T, b *bench) {
	now := b.Now()
	var sum atomic.Int64
	at(func(i int) {
		cost := int64(i%3 + 1)
		lines := []memproxy.Line{total("tenant/acme", 50), total("principal/a", 60)}
		if i%2 == 1 {
			lines[0], lines[1] = lines[1], lines[0]
		}
		a, err := b.store.Charge(context.Background(), memproxy.Charge{ID: fmt.Sprintf("mix-%d", i), Tenant: "acme", Cost: cost, Time: now, Lines: lines})
		expect.OK(t, err)
		if a.Granted {
			sum.Add(cost)
		}
	})
	if s := sum.Load(); s > 50 || s < 48 {
		t.Errorf("granted %d of 50", s)
	}
	b.grant(b.ask(0, total("tenant/acme", 50), total("principal/a", 60)), sum.Load(), sum.Load())
}
