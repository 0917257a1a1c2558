package ledger

import (
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memproxy/memproxy"
)

// recent are the records in use, bounded. The writer changes what it commits;
// readers fill in what they looked up, unless a commit came in between: what
// they hold may then be old.
//
// While a commit is under way, the records that it changes are in the store
// only. Otherwise a reader could see the new one there and then, in memory, the
// old one.
type recent struct {
	mu    sync.Mutex
	rows  lru.LRUCache[key, *memproxy.Record] // nil: nothing is kept. A nil record: nothing is known of the object.
	clock uint64                              // counts begins and ends of commits; odd during one

	// waiting is what was put and is not in the store yet. Its owners come before
	// everything else.
	waiting map[key]waiting
}

// waiting is what is on its way to the store about one object: the newest of some
// owners, and how often anything else of it changes.
type waiting struct {
	owner           memproxy.Ownership
	owners, changes int
}

func newRecent(size int) (*recent, error) {
	r := &recent{waiting: map[key]waiting{}}
	if size < 0 {
		return r, nil
	}
	rows, err := lru.NewLRU[key, *memproxy.Record](size, nil)
	r.rows = rows
	return r, err
}

// get puts into found what is known here of objects. Of the rest the store
// knows; moment is for fill.
func (r *recent) get(found map[key]memproxy.Record, keys []key) (rest []key, moment uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		if rec, ok := r.kept(k); !ok {
			rest = append(rest, k)
		} else if rec != nil {
			found[k] = *rec
		}
		if w := r.waiting[k]; w.owners > 0 {
			found[k] = owned(found[k], &w.owner)
		}
	}
	return rest, r.clock
}

func (r *recent) kept(k key) (*memproxy.Record, bool) {
	if r.rows == nil {
		return nil, false
	}
	return r.rows.Get(k)
}

// fill keeps what the store had of objects at a moment.
func (r *recent) fill(moment uint64, asked []key, had map[key]memproxy.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil || r.clock != moment || moment%2 == 1 {
		return
	}
	for _, k := range asked {
		r.keep(k, had[k])
	}
}

// pend makes the owners of an entry visible that is about to be queued, if queue
// takes it. Both happen under one lock, so that of two of one object the same is last
// here and in the store.
func (r *recent) pend(e *memproxy.Entry, queue func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !queue() {
		return false
	}
	for i := range e.Owners {
		k := keyOf(&e.Owners[i])
		w := r.waiting[k]
		r.waiting[k] = waiting{e.Owners[i], w.owners + 1, w.changes}
	}
	for _, k := range histories(e) {
		w := r.waiting[k]
		r.waiting[k] = waiting{w.owner, w.owners, w.changes + 1}
	}
	return true
}

// arrived is called when an entry is in the store or lost.
func (r *recent) arrived(e *memproxy.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := func(k key, owners, changes int) {
		w := r.waiting[k]
		r.waiting[k] = waiting{w.owner, w.owners - owners, w.changes - changes}
		if w.owners+w.changes == 1 {
			delete(r.waiting, k)
		}
	}
	for i := range e.Owners {
		done(keyOf(&e.Owners[i]), 1, 0)
	}
	for _, k := range histories(e) {
		done(k, 0, 1)
	}
}

// idle reports whether everything is in the store.
func (r *recent) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) == 0
}

// changing reports whether more than the owner of one of the objects is on its way.
func (r *recent) changing(keys []key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) > 0 && slices.ContainsFunc(keys, func(k key) bool { return r.waiting[k].changes > 0 })
}

// begin takes what a commit is about to change out of memory.
func (r *recent) begin(all map[key]*recordRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	if r.rows == nil {
		return
	}
	for k, row := range all {
		if row == nil || row.touched {
			r.rows.Remove(k)
		}
	}
	if _, ok := all[everything]; ok {
		r.rows.Purge()
	}
}

// end keeps the records that a commit changed, as far as all of each is known;
// nil if it is not known whether it succeeded.
func (r *recent) end(all map[key]*recordRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	if _, ok := all[everything]; ok || r.rows == nil {
		return
	}
	for k, row := range all {
		if row != nil && row.touched && (row.Owned() || row.sure) {
			r.keep(k, row.Record)
		}
	}
}

func (r *recent) keep(k key, rec memproxy.Record) {
	if nothing(&rec) {
		r.rows.Add(k, nil)
		return
	}
	r.rows.Add(k, &rec)
}

// nothing reports whether nothing is known of an object.
func nothing(rec *memproxy.Record) bool {
	return !rec.Owned() && !rec.Rated() && rec.Listing == memproxy.NotSealed
}

// owned is a record with an owner, who ends what its listing says.
func owned(rec memproxy.Record, owner *memproxy.Ownership) memproxy.Record {
	rec.Owner, rec.Listing, rec.FirstSeen = *owner, memproxy.NotSealed, ""
	return rec
}

// everything is all objects among those to be read anew.
var everything key
