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
}

func newHot(size int) (*hot, error) {
	h := &hot{}
	if size < 0 {
		return h, nil
	}
	rows, err := lru.New[key, memproxy.Ownership](size)
	h.rows = rows
	return h, err
}

func (h *hot) get(k key) (memproxy.Ownership, bool) {
	if h.rows == nil {
		return memproxy.Ownership{}, false
	}
	return h.rows.Get(k)
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
