package ledger

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memproxy/memproxy"
)

// Two kinds of keys for things that every write looks up and that are nearly always
// absent: the lock of a session, and a retraction by an author. Their absence is cached
// like a record. No record has such a kind.
const (
	lockKind       = "\x00lock"
	retractionKind = "\x00retraction"
)

// absentKeys returns the keys under which the absence of a tenant's locks or
// retractions is cached.
func absentKeys(kind memproxy.TargetKind, tenant string, ids ...string) []key {
	keys := make([]key, len(ids))
	for i, id := range ids {
		keys[i] = key{Backend: tenant, Kind: kind, ID: id}
	}
	return keys
}

// recent is a bounded cache of records. The writer adds what it commits. Readers add
// what they looked up, unless a commit began or ended in between, because their rows
// may then be stale.
//
// During a commit the records that it changes are not cached. Otherwise a reader could
// see the new record in the store and then the old one in the cache.
type recent struct {
	mu    sync.Mutex
	rows  recordCache // nil: nothing is cached
	locks recordCache // absences of lockKind and retractionKind, which take no room from records
	clock uint64      // counts the begins and ends of commits; odd during a commit

	// waiting has the changes that are queued and not in the store yet. Their owners take
	// precedence over the cache and the store.
	waiting map[key]*queuedChanges
}

// recordCache holds records by key, or nil if there is nothing about the object.
type recordCache = lru.LRUCache[key, *memproxy.Record]

// queuedChanges has the queued changes of one object: its newest owner, the number of changes
// of the owner, and the number of other changes.
type queuedChanges struct {
	owner           memproxy.Ownership
	owners, changes int
}

func newRecent(size int) (*recent, error) {
	r := &recent{waiting: map[key]*queuedChanges{}}
	if size < 0 {
		return r, nil
	}
	rows, err := lru.NewLRU[key, *memproxy.Record](size, nil)
	locks, lerr := lru.NewLRU[key, *memproxy.Record](size, nil)
	r.rows, r.locks = rows, locks
	return r, cmp.Or(err, lerr)
}

// of returns the cache for a key.
func (r *recent) of(k key) recordCache {
	if k.Kind == lockKind || k.Kind == retractionKind {
		return r.locks
	}
	return r.rows
}

// get adds the cached records to found and returns the keys that have to be looked up
// in the store. moment is to be passed to fill.
func (r *recent) get(found memproxy.Records, keys []key) (rest []key, moment uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range keys {
		var rec *memproxy.Record
		known := false
		if r.rows != nil {
			rec, known = r.of(k).Get(k)
		}
		if !known {
			rest = append(slices.Grow(rest, len(keys)-i), k)
		} else if rec != nil {
			found[k] = rec
		}
		if w := r.waiting[k]; w != nil && w.owners > 0 {
			rec := withOwner(found.Of(k), &w.owner)
			found[k] = &rec
		}
	}
	return rest, r.clock
}

// fill caches what the store had for the asked keys, unless a commit was in progress
// since moment.
func (r *recent) fill(moment uint64, asked []key, had memproxy.Records) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil || r.clock != moment || moment%2 == 1 {
		return
	}
	for _, k := range asked {
		rec := had.Of(k)
		if !rec.HasOwner() {
			k.ID = strings.Clone(k.ID) // the id may be a slice of an answer, which it would keep in memory
		}
		r.keep(k, rec)
	}
}

// addWaiting makes an entry's owners visible if queue accepts the entry. It holds a lock
// meanwhile, so that the order of two entries for one object is the same here and in the
// store.
func (r *recent) addWaiting(e *memproxy.Entry, queue func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !queue() {
		return false
	}
	r.count(e, 1)
	return true
}

// removeWaiting is called when an entry is in the store or lost.
func (r *recent) removeWaiting(e *memproxy.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(e, -1)
}

// count adds the changes of an entry to those that wait, or with by -1 removes them.
func (r *recent) count(e *memproxy.Entry, by int) {
	change := func(k key, owners, changes int) *queuedChanges {
		w := r.waiting[k]
		if w == nil {
			w = &queuedChanges{}
			r.waiting[k] = w
		}
		w.owners += owners
		w.changes += changes
		if w.owners+w.changes == 0 {
			delete(r.waiting, k)
		}
		return w
	}
	for i := range e.Owners {
		if w := change(e.Owners[i].Key(), by, 0); by > 0 {
			w.owner = e.Owners[i]
		}
	}
	for _, k := range historyKeys(e) {
		change(k, 0, by)
	}
}

func (r *recent) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) == 0
}

// hasQueuedChanges reports whether a change of more than the owner is queued for one of the keys.
func (r *recent) hasQueuedChanges(keys []key) bool {
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
	if _, ok := all[allRecords]; ok {
		r.rows.Purge()
	}
}

// end caches the records that a commit changed, if they are completely known. all is
// nil if it is unknown whether the commit succeeded.
func (r *recent) end(all map[key]*recordRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	if _, ok := all[allRecords]; ok || r.rows == nil {
		return
	}
	for k, row := range all {
		if row != nil && row.touched && (row.HasOwner() || row.listingKnown) {
			r.keep(k, row.Record)
		}
	}
}

func (r *recent) keep(k key, rec memproxy.Record) {
	if rec.HasOwner() { // the key shares the record's strings
		k.ID, rec.Owner.Backend, rec.Owner.Kind = rec.Owner.ID, k.Backend, k.Kind
	}
	if !rec.HasOwner() && !rec.HasStatus() && rec.Presence == memproxy.NotSealed {
		r.of(k).Add(k, nil)
		return
	}
	all := rec // the copy keeps rec on the stack
	r.rows.Add(k, &all)
}

// withOwner returns a record with an owner, which replaces the record's listing. The status is
// from then on the owner's tenant's: its readers see the mark, and its reviewers rule on it.
func withOwner(rec memproxy.Record, owner *memproxy.Ownership) memproxy.Record {
	rec.Owner, rec.Presence, rec.FirstSeen = *owner, memproxy.NotSealed, ""
	if rec.HasStatus() && rec.HasOwner() {
		rec.Status.Tenant = owner.Scope.Tenant
	}
	return rec
}

var allRecords key // a key that stands for all objects in the set that a commit changes
