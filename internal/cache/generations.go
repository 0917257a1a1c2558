package cache

import "sync"

// Generations keeps at least the last size entries that were added or got, and at most
// twice as many: once that many are young, they become the old ones, and those that
// were old are dropped. An entry takes a third of the memory that it takes in a Cache,
// and the garbage collector follows no list. It is safe for concurrent use; nil keeps
// nothing.
type Generations[K comparable, V any] struct {
	size int

	mu         sync.Mutex
	young, old map[K]V
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
	if len(g.young) == g.size {
		g.young, g.old = map[K]V{}, g.young
	}
	g.young[key] = v
}

// Len is the number of entries, of which those in both generations count twice.
func (g *Generations[K, V]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.young) + len(g.old)
}
