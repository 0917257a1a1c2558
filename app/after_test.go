package app

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// Work with the same key runs in order, close waits for all of it, and work that
// arrives after close runs at once.
func TestWorkOfOneKeyIsOrdered(t *testing.T) {
	t.Parallel()
	a := newAfter(4, 8)
	var mu sync.Mutex
	seen := map[string][]int{}
	for i := range 40 {
		for k := range 5 {
			key := fmt.Sprint(k)
			for !a.queue(key, func() { mu.Lock(); defer mu.Unlock(); seen[key] = append(seen[key], i) }) {
			}
		}
	}
	must.Do(t, a.close(context.Background()))
	for key, order := range seen {
		for i, n := range order {
			if i != n {
				t.Fatalf("%s: %v", key, order)
			}
		}
		if len(order) != 40 {
			t.Errorf("%s: %d were done", key, len(order))
		}
	}
	late := false
	if a.run("0", func() { late = true }); !late {
		t.Error("what comes late is not done")
	}
}
