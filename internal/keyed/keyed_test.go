package keyed_test

import (
	"context"
	"errors"
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
		var s keyed.Semaphores
		release := must.Get(s.Acquire(t.Context(), "a", 2, 2))(t)
		var order []string
		enter := func(name string, share int64) {
			go func() {
				leave := must.Get(s.Acquire(t.Context(), "a", share, 2))(t)
				order = append(order, name)
				leave()
			}()
			synctest.Wait()
		}
		enter("whole", 2)
		enter("half", 1)
		must.Get(s.Acquire(t.Context(), "b", 1, 1))(t)()
		expect.List(t, order, nil)
		release()
		synctest.Wait()
		expect.List(t, order, []string{"whole", "half"})
		expect.Equal(t, s.Len(), 0, "keys in use")
	})
}

// A waiter whose time is over leaves nothing behind, and the holder keeps its place.
func TestWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s keyed.Semaphores
		release := must.Get(s.Acquire(t.Context(), "a", 1, 1))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx, "a", 1, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		expect.Equal(t, s.Len(), 1, "keys in use")
		release()
		expect.Equal(t, s.Len(), 0, "keys in use")
		expired, stop := context.WithDeadline(t.Context(), time.Now())
		defer stop()
		must.Get(s.Acquire(expired, "a", 1, 1))(t)() // a place is free
	})
}

// HeldNow is about the keys that are in use now, and not about those that are later.
func TestHeldNow(t *testing.T) {
	var s keyed.Semaphores
	release := must.Get(s.Acquire(t.Context(), "a", 1, 1))(t)
	still := s.HeldNow()
	later := must.Get(s.Acquire(t.Context(), "b", 1, 1))(t)
	expect.Equal(t, still(), true)
	release()
	expect.Equal(t, still(), false, "only a later key is in use")
	again := must.Get(s.Acquire(t.Context(), "a", 1, 1))(t)
	expect.Equal(t, still(), false, "the key is in use again")
	again()
	later()
}
