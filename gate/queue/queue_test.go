package queue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/gate/queue"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Changes of one key are made in the order in which they came; those that share it go
// together, and those of other keys at once.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue.Queue
		ctx := context.Background()
		var mu sync.Mutex
		var order []string
		enter := func(name string, alone bool, keys ...string) func() {
			t.Helper()
			leave, ok := q.Enter(ctx, time.Minute, alone, keys...)
			if !ok {
				t.Errorf("the turn of %s did not come", name)
				return func() {}
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
			return leave
		}
		first := enter("first", true, "m1", "m1")
		enter("elsewhere", true, "m2")()
		shared := make(chan func(), 2)
		go func() { shared <- enter("second", false, "m1") }()
		synctest.Wait()
		go func() { shared <- enter("third", false, "m1") }()
		synctest.Wait()
		go func() { enter("fourth", true, "m1")() }()
		synctest.Wait()
		must.Len(t, order, 2)
		if _, ok := q.Enter(ctx, time.Second, true, "m1"); ok {
			t.Error("a change without patience came first")
		}
		first()
		first() // twice is once
		synctest.Wait()
		if len(order) != 4 || order[2] == "fourth" || order[3] == "fourth" {
			t.Fatalf("%v: two share the key", order)
		}
		(<-shared)()
		(<-shared)()
		synctest.Wait()
		must.Len(t, order, 5)
		expect.Equal(t, order[4], "fourth")
		enter("last", true, "m1")()
	})
}
