package cache

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// NewWeighed returns a cache of entries that weigh up to limit together, such as
// bytes of memory. An entry that weighs more than that alone is not kept.
func NewWeighed[K comparable, V any](limit int, weight func(V) int) Cache[K, V] {
	c := &weighed[K, V]{limit: limit, weight: weight}
	var err error
	if c.kept, err = simplelru.NewLRU(limit, func(_ K, v V) { c.total -= weight(v) }); err != nil {
		panic(err)
	}
	return c
}

type weighed[K comparable, V any] struct {
	limit  int
	weight func(V) int

	mu    sync.Mutex
	kept  *simplelru.LRU[K, V]
	total int
}

func (c *weighed[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Get(key)
}

func (c *weighed[K, V]) Add(key K, value V) (evicted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(key) // its weight leaves with it
	c.kept.Add(key, value)
	for c.total += c.weight(value); c.total > c.limit; evicted = true {
		c.kept.RemoveOldest()
	}
	return evicted
}

func (c *weighed[K, V]) Remove(key K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Remove(key)
}

func (c *weighed[K, V]) Purge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Purge()
}

func (c *weighed[K, V]) Keys() []K {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Keys()
}

func (c *weighed[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Len()
}
