package ledger

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memproxy/memproxy"
)

// The kinds of what every write asks for and is absent nearly always: whether a session is
// locked, and whether an author has retracted anything. That it is absent is cached like a
// record, of which none has such a kind.
const (
	lockKind       = "\x00lock"
	retractionKind = "\x00retraction"
)

// absent are the keys of a tenant's locks or authors.
func absent(kind memproxy.TargetKind, tenant string, ids ...string) []key {
	keys := make([]key, len(ids))
	for i, id := range ids {
		keys[i] = key{Backend: tenant, Kind: kind, ID: id}
	}
	return keys
}

// recent is a bounded cache of records. The writer updates what it commits; readers
// add what they looked up, unless a commit came in between, since their rows may then
// be stale.
//
// During a commit the records that it changes are not cached. Otherwise a reader could
// see the new record in the store and then the old one in the cache.
type recent struct {
	mu    sync.Mutex
	rows  kept   // nil: nothing is kept
	locks kept   // what is absent of lockKind and retractionKind, which takes no room from records
	clock uint64 // counts begins and ends of commits; odd during one

	// waiting is what was queued and is not in the store yet. Its owners take
	// precedence over everything else.
	waiting map[key]*waiting
}

// kept are records by their keys: a *memproxy.Record, the *memproxy.Ownership of one that
// has nothing else, which is half of it, or nil if nothing is known of the object.
type kept = lru.LRUCache[key, any]

// waiting is what is queued of one object: its newest owner, and how many queued
// changes of its owner and of anything else there are.
type waiting struct {
	owner           memproxy.Ownership
	owners, changes int
}

func newRecent(size int) (*recent, error) {
	r := &recent{waiting: map[key]*waiting{}}
	if size < 0 {
		return r, nil
	}
	rows, err := lru.NewLRU[key, any](size, nil)
	locks, lerr := lru.NewLRU[key, any](size, nil)
	r.rows, r.locks = rows, locks
	return r, cmp.Or(err, lerr)
}

// of is where a key is kept.
func (r *recent) of(k key) kept {
	if k.Kind == lockKind || k.Kind == retractionKind {
		return r.locks
	}
	return r.rows
}

// get adds the cached records to found and returns the keys that the store has to be
// asked for. moment is for fill.
func (r *recent) get(found map[key]memproxy.Record, keys []key) (rest []key, moment uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range keys {
		if rec, ok := r.kept(k); !ok {
			rest = append(slices.Grow(rest, len(keys)-i), k)
		} else if !nothing(&rec) {
			found[k] = rec
		}
		if w := r.waiting[k]; w != nil && w.owners > 0 {
			found[k] = owned(found[k], &w.owner)
		}
	}
	return rest, r.clock
}

func (r *recent) kept(k key) (rec memproxy.Record, ok bool) {
	if r.rows == nil {
		return rec, false
	}
	is, ok := r.of(k).Get(k)
	switch is := is.(type) {
	case *memproxy.Record:
		rec = *is
	case *memproxy.Ownership:
		rec.Owner = *is
	}
	return rec, ok
}

// fill caches what the store had of objects at a moment.
func (r *recent) fill(moment uint64, asked []key, had map[key]memproxy.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil || r.clock != moment || moment%2 == 1 {
		return
	}
	for _, k := range asked {
		rec := had[k]
		if !rec.Owned() {
			k.ID = strings.Clone(k.ID) // it may be a slice of an answer
		}
		r.keep(k, rec)
	}
}

// addWaiting makes an entry's owners visible if queue accepts the entry. Both happen
// under one lock, so that two entries of one object have the same order here and in
// the store.
func (r *recent) addWaiting(e *memproxy.Entry, queue func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !queue() {
		return false
	}
	of := func(k key) *waiting {
		w := r.waiting[k]
		if w == nil {
			w = &waiting{}
			r.waiting[k] = w
		}
		return w
	}
	for i := range e.Owners {
		w := of(keyOf(&e.Owners[i]))
		w.owner, w.owners = e.Owners[i], w.owners+1
	}
	for _, k := range histories(e) {
		of(k).changes++
	}
	return true
}

// removeWaiting is called when an entry is in the store or lost.
func (r *recent) removeWaiting(e *memproxy.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := func(k key, owners, changes int) {
		w := r.waiting[k]
		if w.owners, w.changes = w.owners-owners, w.changes-changes; w.owners+w.changes == 0 {
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
	return len(r.waiting) > 0 && slices.ContainsFunc(keys, func(k key) bool { w := r.waiting[k]; return w != nil && w.changes > 0 })
}

// begin removes from the cache what a commit is about to change.
func (r *recent) begin(all map[key]*recordRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	if r.rows == nil {
		return
	}
	for k, row := range all {
		if row == nil || row.touched {
			r.of(k).Remove(k)
		}
	}
	if _, ok := all[everything]; ok {
		r.rows.Purge()
	}
}

// end caches the records that a commit changed, if they are completely known. all is
// nil if it is unknown whether the commit succeeded.
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
	if rec.Owned() { // the strings of its key are those that it has
		k.ID, rec.Owner.Backend, rec.Owner.Kind = rec.Owner.ID, k.Backend, k.Kind
	}
	switch {
	case nothing(&rec):
		r.of(k).Add(k, nil)
	case rec.Rated() || rec.Listing != memproxy.NotSealed || rec.FirstSeen != "":
		all := rec // keeps rec on the stack
		r.rows.Add(k, &all)
	default:
		owner := rec.Owner
		r.rows.Add(k, &owner)
	}
}

// nothing reports whether a record is empty.
func nothing(rec *memproxy.Record) bool {
	return !rec.Owned() && !rec.Rated() && rec.Listing == memproxy.NotSealed
}

// owned is a record with an owner, which replaces what its listing says.
func owned(rec memproxy.Record, owner *memproxy.Ownership) memproxy.Record {
	rec.Owner, rec.Listing, rec.FirstSeen = *owner, memproxy.NotSealed, ""
	return rec
}

// everything stands for all objects among those that a commit changes.
var everything key
