package cache_test

import (
	"testing"

	"github.com/memproxy/memproxy/internal/cache"
)

// What was added or got lately is kept, of no more than two generations.
func TestGenerations(t *testing.T) {
	c := cache.NewGenerations[int, string](3)
	for i := range 100 {
		c.Add(i, "v")
		for _, there := range []int{0, i, max(0, i-1)} {
			if v, ok := c.Get(there); !ok || v != "v" {
				t.Fatalf("after %d: %d is gone", i, there)
			}
		}
		if n := c.Len(); n > 6 {
			t.Fatalf("%d entries", n)
		}
	}
	if _, ok := c.Get(50); ok {
		t.Error("50 is kept")
	}
	none := (*cache.Generations[int, string])(nil)
	none.Add(1, "v")
	if _, ok := none.Get(1); ok {
		t.Error("nothing keeps something")
	}
}
