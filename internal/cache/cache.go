// Package cache keeps what was used last.
package cache

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache keeps as many entries as it was made for; the one that was used least
// recently makes room. It is safe for concurrent use. As an interface, it
// spares packages that only know a type with a cache in it the compilation of
// the generic functions behind it.
type Cache[K comparable, V any] interface {
	Get(key K) (V, bool)
	Add(key K, value V)
	Remove(key K)
	// DeleteFunc removes the entries for which del returns true.
	DeleteFunc(del func(K, V) bool)
}

// New returns a cache of size entries; it panics where there would be none.
func New[K comparable, V any](size int) Cache[K, V] {
	return NewWeighed[K](size, func(V) int { return 1 })
}

// Generations keeps at least the last size entries that were added or got, and at most
// twice as many: once that many are young, they become the old ones, and those that
// were old are dropped. With Extra an entry counts as that many more. An entry takes a
// third of the memory that it takes in a Cache, and the garbage collector follows no list.
// It is safe for concurrent use; nil keeps nothing.
type Generations[K comparable, V any] struct {
	Extra func(V) int // set before use; nil: 0
	size  int

	mu         sync.Mutex
	young, old map[K]V
	extra      int // of the young
}

// NewGenerations returns one of size entries a generation.
func NewGenerations[K comparable, V any](size int) *Generations[K, V] {
	return &Generations[K, V]{size: size, young: map[K]V{}}
}

// Get returns what is kept of a key.
func (g *Generations[K, V]) Get(key K) (v V, ok bool) {
	if g == nil {
		return v, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if v, ok = g.young[key]; ok {
		return v, true
	}
	if v, ok = g.old[key]; ok {
		g.add(key, v)
	}
	return v, ok
}

// Add keeps a value.
func (g *Generations[K, V]) Add(key K, v V) {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.add(key, v)
	}
}

func (g *Generations[K, V]) add(key K, v V) {
	if len(g.young)+g.extra >= g.size {
		g.young, g.old, g.extra = map[K]V{}, g.young, 0
	}
	g.young[key] = v
	if g.Extra != nil {
		g.extra += g.Extra(v)
	}
}

// Len is the number of entries, of which those in both generations count twice.
func (g *Generations[K, V]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.young) + len(g.old)
}

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

func (c *weighed[K, V]) Add(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(key) // its weight leaves with it
	c.kept.Add(key, value)
	for c.total += c.weight(value); c.total > c.limit; {
		c.kept.RemoveOldest()
	}
}

func (c *weighed[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(key)
}

func (c *weighed[K, V]) DeleteFunc(del func(K, V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.kept.Keys() {
		if value, _ := c.kept.Peek(key); del(key, value) {
			c.kept.Remove(key)
		}
	}
}
