package ledger

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// hot is the part of an index that is in use, bounded. The writer
// puts what it committed; readers fill in what they looked up, unless a commit
// came in between: the row that they hold may then be the old one.
//
// While a commit is under way its rows are in the file only. Otherwise a
// reader could see the new row there and then, in memory, the old one.
type hot[V any] struct {
	of   func(*V) key
	rows *lru.Cache[key, V] // nil: nothing is kept

	mu    sync.Mutex // orders fills against commits
	clock uint64     // counts begins and ends of commits; odd during one

	// waiting are rows that were put and are not in the file yet. They come
	// before everything else.
	waiting map[key]waiting[V]
}

// waiting is the newest of n rows of one key on their way to the file.
type waiting[V any] struct {
	row V
	n   int
}

func newHot[V any](size int, of func(*V) key) (*hot[V], error) {
	h := &hot[V]{of: of, waiting: map[key]waiting[V]{}}
	if size < 0 {
		return h, nil
	}
	rows, err := lru.New[key, V](size)
	h.rows = rows
	return h, err
}

func (h *hot[V]) get(k key) (V, bool) {
	var none V
	h.mu.Lock()
	w, ok := h.waiting[k]
	h.mu.Unlock()
	if ok {
		return w.row, true
	}
	if h.rows == nil {
		return none, false
	}
	return h.rows.Get(k)
}

// pend makes rows visible that are about to be queued, if queue takes them.
// Both happen under one lock, so that of two rows of one key the same is last
// here and in the file.
func (h *hot[V]) pend(rows []V, queue func() bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !queue() {
		return false
	}
	for i := range rows {
		k := h.of(&rows[i])
		h.waiting[k] = waiting[V]{rows[i], h.waiting[k].n + 1}
	}
	return true
}

// arrived is called when rows are in the file or lost.
func (h *hot[V]) arrived(rows []V) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range rows {
		k := h.of(&rows[i])
		if w := h.waiting[k]; w.n > 1 {
			h.waiting[k] = waiting[V]{w.row, w.n - 1}
		} else {
			delete(h.waiting, k)
		}
	}
}

// idle reports whether everything is in the file.
func (h *hot[V]) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting) == 0
}

// moment is taken before a look-up and handed to fill after it.
func (h *hot[V]) moment() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock
}

func (h *hot[V]) fill(seen uint64, row V) {
	if h.rows == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clock == seen && seen%2 == 0 {
		h.rows.Add(h.of(&row), row)
	}
}

// begin takes what a commit is about to change out of memory.
func (h *hot[V]) begin(put []V, gone []key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	if h.rows == nil {
		return
	}
	for i := range put {
		h.rows.Remove(h.of(&put[i]))
	}
	for _, k := range gone {
		h.rows.Remove(k)
	}
}

// end takes over what a commit wrote, in the order of writing; nothing if it
// is not known whether it succeeded.
func (h *hot[V]) end(put []V) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	if h.rows == nil {
		return
	}
	for i := range put {
		h.rows.Add(h.of(&put[i]), put[i])
	}
}
