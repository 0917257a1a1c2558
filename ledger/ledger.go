// Package ledger remembers whose memories are and who wrote them, what became
// of them since, and the writes that wait for a person.
//
// It promises:
//
//   - An entry that Commit returned for is found by the next call. It is in the
//     file some milliseconds later, or at once with Options.Durable; until then
//     it is in a log next to the file, so that a process that is killed loses
//     none. What a power failure takes is no gap in the gate: a memory's stamp
//     names its author, and the owner of what has none is asked upstream.
//   - Lookup answers for what it knows and leaves out what it does not: who owns
//     an object, its status, and whether its sealed backend held it. An id that
//     could never be stored is simply not known; it does not spoil the lookup of
//     the others.
//   - A held write (Holds.Put) and what is settled about it is on the disk when
//     the call returns. It is given out to be sent once (Holds.Claim); where it
//     is not known whether it was sent, it is Stranded, never repeated.
//   - Contents (of holds, versions, dissent) are encrypted,
//     each under a key of its own, bound to its item and tenant. To shred one
//     destroys that key. No content is anywhere else in the store, but for
//     milliseconds in the log, encrypted, where it is overwritten.
//   - Every version of a memory is in two signed chains, the memory's and
//     the tenant's. Chains.Verify names what was done to them from outside. A broken
//     chain goes on and stays broken.
//   - Deleted memories stay as tombstones until Upkeep.Prune removes them. Everything
//     that is over has a retention, see Upkeep.Maintain, and everything that a caller
//     can make many of has a bound.
//   - Every call honours its context and has a deadline of its own.
//   - A damaged file makes Open fail. Nothing is repaired, moved or removed.
//
// The store is an SQLite file, which one process at a time uses: the hot rows
// are cached in memory. Or it is a Postgres database (Options.URL) that
// several proxies share; nothing is cached then, and all writes wait for their
// commit. Both run the same statements and pass the same contract, ledgertest.
package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
)

// chunk is how many ids one query asks for.
const chunk = 1000

// Ledger is the store of what is known of memories. Its parts are the rest of the
// same store, and are used by fewer. All are safe for concurrent use.
type Ledger struct {
	*store
	Holds     Holds
	Sessions  Sessions
	Notices   Notices
	Rollbacks Rollbacks
	Chains    Chains
	Backends  Backends
	Upkeep    Upkeep
}

// store is what the ledger and its parts share: the database, what is kept of it in
// memory, and the one writer.
type store struct {
	opt            Options
	dialect        dialect
	writer, reader *sql.DB
	recent         *recent
	absent         *absences // nil where others write the store too
	seen           *seen     // likewise
	edits          *edits
	redo           *redo          // nil where nothing is queued
	loading        sync.WaitGroup // seen, until stopLoading
	stopLoading    context.CancelFunc
	similar        atomic.Pointer[[]byte] // the key of sketches, once it was read

	ready   map[string]*sql.Stmt // of writer, by text; see makeReady
	queries sync.Map             // of reader, by text; see query

	gate    sync.RWMutex // held to send on jobs, locked to close it
	closed  bool
	jobs    chan *job
	kept    atomic.Int64 // entries that were acknowledged and wait for room on the disk
	stopped chan struct{}
}

// Lookup returns what is known of objects, by key. One of which nothing is
// recorded is absent, unless its backend was sealed without it; tombstones are
// there, with Owner.Deleted set. Any number of objects may be asked for. What
// was put before is found. An error means that nothing is known.
//
// A memory whose time is over is expired from that moment, and not only once Expire
// has marked it.
func (l *Ledger) Lookup(ctx context.Context, keys ...memproxy.MemoryKey) (map[memproxy.MemoryKey]memproxy.Record, error) {
	found, err := l.lookup(ctx, keys)
	for k, rec := range found {
		if !rec.Status.Expires.IsZero() && rec.Status.Overdue(l.opt.Clock()) {
			rec.Status.State = memproxy.StateExpired
			found[k] = rec
		}
	}
	return found, err
}

func (l *Ledger) lookup(ctx context.Context, keys []key) (map[key]memproxy.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// What Put refuses is not there. An error instead would let one odd id in an
	// answer hide what is known of all the others.
	if slices.ContainsFunc(keys, unstorable) {
		keys = slices.DeleteFunc(slices.Clone(keys), unstorable)
	}
	if l.recent.changing(keys) {
		if err := l.Sync(ctx); err != nil {
			return nil, err
		}
	}
	found := make(map[memproxy.MemoryKey]memproxy.Record, len(keys))
	ask, moment := l.recent.get(found, keys)
	ask = slices.DeleteFunc(ask, func(k key) bool {
		rec, absent := l.seen.absent(k)
		if put := found[k]; absent && rec.Listing != memproxy.NotSealed && !put.Owned() {
			found[k] = rec
		}
		return absent
	})
	if len(ask) == 0 {
		return found, l.alive()
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	had := make(map[memproxy.MemoryKey]memproxy.Record, len(ask))
	for some := range slices.Chunk(ask, chunk) {
		if err := l.ask(ctx, had, some); err != nil {
			return nil, l.wrap("look up records", err)
		}
	}
	l.recent.fill(moment, ask, had)
	for k, rec := range had {
		if put := found[k]; put.Owned() { // and on its way to the store
			rec = owned(rec, &put.Owner)
		}
		found[k] = rec
	}
	return found, nil
}

func unstorable(k memproxy.MemoryKey) bool {
	return k.ID == "" || storable(k.ID) != nil || storable(k.Backend) != nil || storable(string(k.Kind)) != nil
}

// ByID returns what is known of objects of one kind, by id.
func ByID(ctx context.Context, l interface {
	Lookup(context.Context, ...memproxy.MemoryKey) (map[memproxy.MemoryKey]memproxy.Record, error)
}, backend string, kind memproxy.TargetKind, ids ...string) (map[string]memproxy.Record, error) {
	keys := make([]memproxy.MemoryKey, len(ids))
	for i, id := range ids {
		keys[i] = memproxy.MemoryKey{Backend: backend, Kind: kind, ID: id}
	}
	found, err := l.Lookup(ctx, keys...)
	records := make(map[string]memproxy.Record, len(found))
	for k, rec := range found {
		records[k.ID] = rec
	}
	return records, err
}

// recordQuery asks for all that is known of objects of one kind, and, in a row
// without a kind, whether their backend is sealed.
var recordQuery = `SELECT ` + recordColumns + ` FROM record WHERE backend = ?1 AND kind = ?2 AND id IN (SELECT value FROM json_each(?3))
	UNION ALL SELECT backend` + strings.Repeat(", ''", recordTexts-1) + strings.Repeat(", 0", recordNumbers) + `, NULL FROM sealed WHERE backend = ?1`

// byKind are the ids of objects, by backend and kind.
func byKind(keys []key) map[key][]string {
	groups := map[key][]string{}
	for _, k := range keys {
		group := key{Backend: k.Backend, Kind: k.Kind}
		groups[group] = append(groups[group], k.ID)
	}
	return groups
}

// ask puts into had what the store has of objects.
func (s *store) ask(ctx context.Context, had map[memproxy.MemoryKey]memproxy.Record, keys []memproxy.MemoryKey) error {
	for group, ids := range byKind(keys) {
		rows, err := s.query(ctx, recordQuery, group.Backend, string(group.Kind), asJSON(ids))
		if err != nil {
			return err
		}
		scan, sealed := rowScanner(s), false
		_, err = drain(rows, func(from scanner) (none struct{}, err error) {
			r, err := scan(from)
			if r.Kind == "" {
				sealed = true
			} else if !r.blank() {
				had[r.key] = r.Record
			}
			return none, err
		})
		if err != nil {
			return err
		}
		if err := askLost(ctx, s, had, group, ids); err != nil {
			return err
		}
		for _, id := range ids {
			k := key{Backend: group.Backend, Kind: group.Kind, ID: id}
			if rec := had[k]; sealed && !rec.Owned() && rec.Listing == memproxy.NotSealed {
				rec.Listing = memproxy.Unlisted
				had[k] = rec
			}
		}
	}
	return nil
}

// Decision returns a row that was recorded for the write of a decision: the
// receipt if there is one, else one of the memories. Scope and author are the
// same for all of them.
func (l *Ledger) Decision(ctx context.Context, backend, decision string) (memproxy.Ownership, bool, error) {
	// A receipt is of the whole write, so it comes first; then what
	// is still there; then a fixed order.
	return first(look(ctx, l.store, "look up a decision", scanOwner(l.store), `SELECT `+recordColumns+` FROM record
		WHERE backend = ? AND decision = ? AND decision <> ''
		ORDER BY kind <> 'event', deleted > 0, kind, id LIMIT 1`, backend, decision))
}

// wrap names the call that failed, and says ErrClosed where that is why.
func (s *store) wrap(call string, err error) error {
	if closed := s.alive(); closed != nil {
		return closed
	}
	return fmt.Errorf("ledger: %s: %w", call, damaged(err))
}

// alive is ErrClosed once the ledger is closed.
func (s *store) alive() error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return nil
}

// micros is a time as it is stored: microseconds, zero for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
