package cache_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/internal/expect"
)

// A weighed cache stays under its limit whatever is added, replaced and removed, and
// lets go of what was used least recently.
func TestWeighed(t *testing.T) {
	c := cache.NewWeighed[string](10, func(v int) int { return v })
	for _, step := range []struct {
		key    string
		weight int
		kept   string
	}{
		{"a", 4, "a"},
		{"b", 4, "ba"},
		{"a", 6, "ba"}, // replaced: 10 in all
		{"c", 1, "ca"}, // b was used before a
		{"d", 11, ""},  // too heavy alone
		{"e", 10, "e"},
	} {
		c.Add(step.key, step.weight)
		expect.Equal(t, kept(c), step.kept, "after", step.key)
	}
	c.Remove("e")
	c.Add("f", 10)
	expect.Equal(t, kept(c), "f", "the weight of what was removed counts")
	c.DeleteFunc(func(string, int) bool { return true })
	c.Add("g", 10)
	expect.Equal(t, kept(c), "g", "the weight of what was deleted counts")
}

// kept returns the keys in a cache, and uses each of them, a as the last one.
func kept(c cache.Cache[string, int]) (keys string) {
	for _, key := range strings.Split("bcdefga", "") {
		if _, ok := c.Get(key); ok {
			keys += key
		}
	}
	return keys
}
