package ledger

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/memproxy/memproxy"
)

// hot is the part of the ownership index that is in use, bounded. The writer
// puts what it committed; readers fill in what they looked up, unless a commit
// came in between: the row that they hold may then be the old one.
//
// While a commit is under way its rows are in the file only. Otherwise a
// reader could see the new row there and then, in memory, the old one.
type hot struct {
	rows *lru.Cache[key, memproxy.Ownership] // nil: nothing is kept

	mu    sync.Mutex // orders fills against commits
	clock uint64     // counts begins and ends of commits; odd during one

	// waiting are rows that were put and are not in the file yet. They come
	// before everything else.
	waiting map[key]waiting
}

// waiting is the newest of n rows of one key on their way to the file.
type waiting struct {
	row memproxy.Ownership
	n   int
}

func newHot(size int) (*hot, error) {
	h := &hot{waiting: map[key]waiting{}}
	if size < 0 {
		return h, nil
	}
	rows, err := lru.New[key, memproxy.Ownership](size)
	h.rows = rows
	return h, err
}

func (h *hot) get(k key) (memproxy.Ownership, bool) {
	h.mu.Lock()
	w, ok := h.waiting[k]
	h.mu.Unlock()
	if ok {
		return w.row, true
	}
	if h.rows == nil {
		return memproxy.Ownership{}, false
	}
	return h.rows.Get(k)
}

// pend makes rows visible that are about to be queued, if queue takes them.
// Both happen under one lock, so that of two rows of one key the same is last
// here and in the file.
func (h *hot) pend(rows []memproxy.Ownership, queue func() bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !queue() {
		return false
	}
	for i := range rows {
		k := keyOf(&rows[i])
		h.waiting[k] = waiting{rows[i], h.waiting[k].n + 1}
	}
	return true
}

// arrived is called when rows are in the file or lost.
func (h *hot) arrived(rows []memproxy.Ownership) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range rows {
		k := keyOf(&rows[i])
		if w := h.waiting[k]; w.n > 1 {
			h.waiting[k] = waiting{w.row, w.n - 1}
		} else {
			delete(h.waiting, k)
		}
	}
}

// idle reports whether everything is in the file.
func (h *hot) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting) == 0
}

// moment is taken before a look-up and handed to fill after it.
func (h *hot) moment() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock
}

func (h *hot) fill(seen uint64, row memproxy.Ownership) {
	if h.rows == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clock == seen && seen%2 == 0 {
		h.rows.Add(keyOf(&row), row)
	}
}

// begin takes what a commit is about to change out of memory.
func (h *hot) begin(put []memproxy.Ownership, gone []key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	if h.rows == nil {
		return
	}
	for i := range put {
		h.rows.Remove(keyOf(&put[i]))
	}
	for _, k := range gone {
		h.rows.Remove(k)
	}
}

// end takes over what a commit wrote, in the order of writing; nothing if it
// is not known whether it succeeded.
func (h *hot) end(put []memproxy.Ownership) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	if h.rows == nil {
		return
	}
	for i := range put {
		h.rows.Add(keyOf(&put[i]), put[i])
	}
}
