package keyed_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/keyed"
	"github.com/memproxy/memproxy/internal/must"
)

// Waiters of a key are served in the order in which they came, a large share before a
// small one that came later; other keys do not wait.
func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q keyed.Queue
		first := q.Enter(2, 2, "a")
		must.Do(t, first.Wait(t.Context()))
		var order []string
		enter := func(name string, share int64) {
			go func() {
				turn := q.Enter(share, 2, "a")
				must.Do(t, turn.Wait(t.Context()))
				order = append(order, name)
				turn.Leave()
			}()
			synctest.Wait()
		}
		enter("whole", 2)
		enter("half", 1)
		other := q.Enter(1, 1, "b")
		must.Do(t, other.WaitAtMost(t.Context(), 0), "at another key")
		other.Leave()
		expect.List(t, order, nil)
		first.Leave()
		synctest.Wait()
		expect.List(t, order, []string{"whole", "half"})
		expect.Equal(t, q.Len(), 0, "keys in use")
	})
}

// Turns at several keys have the same order at each of them: those that share go together, and
// those of other keys at once.
func TestTurnsAtSeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const whole = 8
		var q keyed.Queue
		var (
			mu    sync.Mutex // the second and the third come at once
			order []string
		)
		enter := func(name string, share int64, keys ...string) *keyed.Ticket {
			turn := q.EnterLock(share == whole, keys...)
			go func() {
				must.Do(t, turn.Wait(t.Context()))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			}()
			synctest.Wait()
			return turn
		}
		first := enter("first", whole, "m1", "m1", "m3")
		enter("elsewhere", whole, "m2").Leave()
		second, third := enter("second", 1, "m1"), enter("third", 1, "m1", "m2")
		fourth := enter("fourth", whole, "m2", "m1")
		expect.List(t, order, []string{"first", "elsewhere"})
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		expect.Is(t, q.EnterLock(true, "m2", "m1").Wait(brief), context.DeadlineExceeded, "a change without patience")
		ended := q.Ended()
		first.Leave()
		first.Leave() // twice is once
		synctest.Wait()
		expect.Equal(t, q.Ended(), ended+1)
		expect.Len(t, order, 4, "two share the key")
		second.Leave()
		synctest.Wait()
		expect.Len(t, order, 4, "at one of its keys it waits")
		third.Leave()
		synctest.Wait()
		must.Len(t, order, 5)
		expect.Equal(t, order[4], "fourth")
		fourth.Leave()
		expect.Equal(t, q.Len(), 0, "keys in use")
	})
}

// A waiter whose time is over leaves nothing behind, and the holder keeps its place.
func TestWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q keyed.Queue
		held := q.Enter(1, 1, "a")
		must.Do(t, held.Wait(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		expect.Is(t, q.Enter(1, 1, "a").Wait(ctx), context.DeadlineExceeded)
		expect.Equal(t, q.Len(), 1, "keys in use")
		held.Leave()
		expect.Equal(t, q.Len(), 0, "keys in use")
		late := q.Enter(1, 1, "a")
		must.Do(t, late.Wait(ctx), "a place is free")
		late.Leave()
		gone, stop := context.WithCancel(t.Context())
		stop()
		expect.Is(t, q.Enter(1, 1, "a").Wait(gone), context.Canceled, "a caller who is gone")
		expect.Equal(t, q.Len(), 0, "keys in use")
	})
}

// HeldNow is about the turns that have entered now, and not about those that come later.
func TestHeldNow(t *testing.T) {
	var q keyed.Queue
	turn := q.Enter(1, 1, "a")
	still := q.HeldNow()
	later, next := q.Enter(1, 1, "b"), q.Enter(1, 1, "a")
	expect.Equal(t, still(), true)
	turn.Leave()
	expect.Equal(t, still(), false, "only later turns are left")
	later.Leave()
	next.Leave()
	expect.Equal(t, q.HeldNow()(), false)
}
