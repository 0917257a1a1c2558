// Package cache keeps what was used last.
package cache

import lru "github.com/hashicorp/golang-lru/v2"

// Cache keeps as many entries as it was made for; the one that was used least
// recently makes room. It is safe for concurrent use. As an interface, it
// spares packages that only know a type with a cache in it the compilation of
// the generic functions behind it.
type Cache[K comparable, V any] interface {
	Get(key K) (V, bool)
	// Add reports whether another entry made room.
	Add(key K, value V) bool
	Remove(key K) bool
	Purge()
	// Keys are the keys of all entries.
	Keys() []K
	Len() int
}

// New returns a cache of size entries; it panics where there would be none.
func New[K comparable, V any](size int) Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err)
	}
	return c
}
