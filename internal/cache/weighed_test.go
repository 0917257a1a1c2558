package cache_test

import (
	"testing"

	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/internal/expect"
)

// A weighed cache stays under its limit whatever is added, replaced and removed, and
// lets go of what was used least recently.
func TestWeighed(t *testing.T) {
	c := cache.NewWeighed[string](10, func(v int) int { return v })
	for _, step := range []struct {
		key     string
		weight  int
		evicted bool
		kept    []string
		gone    []string
	}{
		{"a", 4, false, []string{"a"}, nil},
		{"b", 4, false, []string{"a", "b"}, nil},
		{"a", 6, false, []string{"b", "a"}, nil},          // replaced: 10 in all
		{"c", 1, true, []string{"a", "c"}, []string{"b"}}, // b was used before a
		{"d", 11, true, nil, []string{"a", "c", "d"}},     // too heavy alone
		{"e", 10, false, []string{"e"}, nil},
	} {
		expect.Equal(t, c.Add(step.key, step.weight), step.evicted, step.key, "evicted is")
		for _, k := range step.kept {
			if _, ok := c.Get(k); !ok {
				t.Errorf("after %s: %s is gone", step.key, k)
			}
		}
		for _, k := range step.gone {
			if _, ok := c.Get(k); ok {
				t.Errorf("after %s: %s is kept", step.key, k)
			}
		}
		expect.Equal(t, c.Len(), len(step.kept), step.key)
	}
	c.Remove("e")
	if evicted := c.Add("f", 10); evicted || c.Len() != 1 {
		t.Errorf("the weight of what was removed counts: %d entries", c.Len())
	}
	c.Purge()
	if evicted := c.Add("g", 10); evicted || c.Len() != 1 {
		t.Errorf("the weight of what was purged counts: %d entries", c.Len())
	}
}
