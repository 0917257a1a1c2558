// Package ledger stores the owner, author, status and history of each memory, and the
// held writes that wait for review.
//
// It promises:
//
//   - Once Commit has returned, every later call but Ledger.Track sees the entry. The
//     entry is written to the file a fraction of a second later. Until then it is in a
//     redo log next to the file, if there is a Vault to encrypt it, so that a killed
//     process loses nothing. A power failure may lose the last entries, which does not
//     open a gap in the gate: a memory's signed stamp names its author, and the owner of
//     a memory without a stamp is looked up in the backend, which is cheaper than a sync
//     before every answer.
//   - Lookup returns what is recorded of an object (its owner, its status, and whether
//     its sealed backend held it) and omits objects without a record. An id that cannot
//     be stored counts as unknown and does not fail the lookup of the others.
//   - A held write (Holds.Put) and each decision about it are on disk when the call
//     returns. The write is handed out for sending exactly once (Holds.Claim); if it is
//     unknown whether it was sent, it is stranded (Holds.ExpiredClaims) and never repeated.
//   - Contents (of holds, versions and dissents) are encrypted, each under a key of
//     its own that is bound to its item and tenant; shredding a content destroys that
//     key. Contents are stored nowhere else, except encrypted in the redo log for a
//     fraction of a second, after which they are overwritten.
//   - Every version of a memory is in two signed hash chains, the memory's and the
//     tenant's. Chains.Verify reports changes made outside of memproxy. New versions
//     are appended to a broken chain, which stays broken until a person accepts it.
//   - Deleted memories stay as tombstones until Upkeep.Prune removes them. Finished
//     items have a retention time (Upkeep.Maintain), and everything that callers can
//     create has a limit.
//   - Every call honours its context and has a deadline of its own.
//   - A damaged file makes Open fail. Nothing is repaired, moved or removed.
//
// The store is either an SQLite file, used by one process at a time with the hot
// rows cached in memory, or a Postgres database (Options.URL) shared by several
// proxies, where nothing is cached and every write waits for its commit. Both run
// the same statements and pass the same contract tests, ledgertest.
package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/wait"
	"github.com/memproxy/memproxy/ledger/redo"
)

const chunk = 1000 // maximum number of ids in one query

// Ledger is the store of owners, statuses and histories. Its fields are views of the
// same store for more specialised callers. All are safe for concurrent use.
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

// store has what the ledger and its parts share: the database, the caches and the one
// writer.
type store struct {
	opt            Options
	dialect        dialect
	writer, reader *sql.DB
	file           fs.FileInfo // of Options.Path when it was opened
	recent         *recent
	filter         *keyFilter // nil if other processes write the store too
	edits          *edits
	redo           *redo.Log      // nil if entries are never queued
	loading        sync.WaitGroup // of filter.load, which runs in the background until stopLoading
	stopLoading    context.CancelFunc
	similar        atomic.Pointer[[]byte] // the key of sketches, once it was read

	ready   map[string]*sql.Stmt // of the writer, by text, nil for one that ran once; see prepareNew
	queries sync.Map             // of readers, by text; see query

	closing sync.RWMutex // read-locked to send on jobs, locked to close it
	closed  bool
	jobs    chan *job
	large   chan struct{} // semaphore: holds an element while a part of a large entry waits for the writer
	parted  sync.Map      // channels that are closed when the large entry of a decision is whole, by decision
	kept    atomic.Int64  // acknowledged entries that the store could not take yet; see write
	stopped chan struct{}
}

// Lookup returns the records of any number of objects, by key. It omits objects without
// a record, unless their backend was sealed without them, and includes tombstones, with
// Owner.Deleted set. Lookup sees every Commit that returned before it. After an error
// nothing is known of any object.
//
// Lookup reports a memory as expired from the moment its lifetime ends, even before
// Expire has marked it.
func (l *Ledger) Lookup(ctx context.Context, keys ...memproxy.MemoryKey) (memproxy.Records, error) {
	found, err := l.lookup(ctx, keys)
	for k, rec := range found {
		if !rec.Status.Expires.IsZero() && rec.Status.Overdue(l.opt.Clock()) {
			expired := *rec
			expired.Status.State = memproxy.StateExpired
			found[k] = &expired
		}
	}
	return found, err
}

func (l *Ledger) lookup(ctx context.Context, keys []key) (memproxy.Records, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// An id that cannot be stored has no record. If it were an error, one malformed id in
	// an answer would hide the records of all the others.
	if slices.ContainsFunc(keys, unstorable) {
		keys = slices.DeleteFunc(slices.Clone(keys), unstorable)
	}
	if l.recent.hasQueuedChanges(keys) {
		if err := l.Sync(ctx); err != nil {
			return nil, err
		}
	}
	found := make(memproxy.Records, len(keys))
	ask, moment := l.recent.get(found, keys)
	ask = slices.DeleteFunc(ask, func(k key) bool {
		rec, absent := l.filter.absent(k)
		if absent && rec.Presence != memproxy.NotSealed && found[k] == nil {
			found[k] = &memproxy.Record{Presence: rec.Presence}
		}
		return absent
	})
	if len(ask) == 0 {
		return found, l.alive()
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	had := make(memproxy.Records, len(ask))
	for some := range slices.Chunk(ask, chunk) {
		if err := l.queryRecords(ctx, had, some); err != nil {
			return nil, l.wrap("look up records", err)
		}
	}
	l.recent.fill(moment, ask, had)
	for k, rec := range had {
		if put := found[k]; put != nil { // an owner that is queued
			*rec = withOwner(*rec, &put.Owner)
		}
		found[k] = rec
	}
	return found, nil
}

func unstorable(k memproxy.MemoryKey) bool { return validKey(k) != nil }

// ByID returns the records of objects of one kind, by id.
func ByID(ctx context.Context, l interface {
	Lookup(context.Context, ...memproxy.MemoryKey) (memproxy.Records, error)
}, backend string, kind memproxy.TargetKind, ids ...string) (map[string]memproxy.Record, error) {
	keys := make([]memproxy.MemoryKey, len(ids))
	for i, id := range ids {
		keys[i] = memproxy.MemoryKey{Backend: backend, Kind: kind, ID: id}
	}
	found, err := l.Lookup(ctx, keys...)
	records := make(map[string]memproxy.Record, len(found))
	for k, rec := range found {
		records[k.ID] = *rec
	}
	return records, err
}

// recordQuery selects the records of objects of one kind and, as a row without a
// kind, whether their backend is sealed.
var recordQuery = `SELECT ` + recordColumns + ` FROM record WHERE backend = ?1 AND kind = ?2 AND id IN (SELECT value FROM json_each(?3))
	UNION ALL SELECT backend` + strings.Repeat(", ''", recordTexts-1) + strings.Repeat(", 0", recordNumbers) + `, NULL FROM sealed WHERE backend = ?1`

// queryRecords adds the stored records of objects to had.
func (s *store) queryRecords(ctx context.Context, had memproxy.Records, keys []memproxy.MemoryKey) error {
	groups := map[key][]string{} // ids by backend and kind
	for _, k := range keys {
		group := key{Backend: k.Backend, Kind: k.Kind}
		groups[group] = append(groups[group], k.ID)
	}
	for group, ids := range groups {
		scan, sealed := rowScanner(s), false
		_, err := fetch(ctx, s, func(from scanner) (none struct{}, err error) {
			r, err := scan(from)
			if r.Kind == "" {
				sealed = true
			} else if !r.blank() {
				had[r.key] = &r.Record
			}
			return none, err
		}, recordQuery, group.Backend, string(group.Kind), asJSON(ids))
		if err != nil {
			return err
		}
		if err := addLost(ctx, s, had, group, ids); err != nil {
			return err
		}
		for _, id := range ids {
			k := key{Backend: group.Backend, Kind: group.Kind, ID: id}
			if sealed && had[k] == nil {
				had[k] = &memproxy.Record{}
			}
			if rec := had[k]; sealed && !rec.HasOwner() && rec.Presence == memproxy.NotSealed {
				rec.Presence = memproxy.AddedAfterSeal
			}
		}
	}
	return nil
}

// Decision returns one of the owners that were recorded for the write of a decision:
// that of the receipt if there is one, else that of one of the memories. All of them
// have the same scope and author, and are recorded when it returns, unless another
// process still records them.
func (l *Ledger) Decision(ctx context.Context, backend, decision string) (memproxy.Ownership, bool, error) {
	// The receipt represents the whole write, so it sorts first; deleted rows sort last.
	own, known, err := first(querySettled(ctx, l.store, "look up a decision", scanPart(l.store, ownerOf),
		`SELECT `+recordColumns+` FROM record
		WHERE backend = ? AND decision = ? AND decision <> '' AND kind <> 'entity'
		ORDER BY kind <> 'event', deleted > 0, kind, id LIMIT 1`, backend, decision))
	if done, parted := l.parted.Load(decision); known && parted {
		err = wait.For(ctx, func() { <-done.(chan struct{}) })
	}
	return own, known, err
}

func validOwner(row *memproxy.Ownership) error {
	return cmp.Or(validKey(row.Key()), storableParts("owner", row.Scope.Tenant, row.Scope.User, row.Scope.Agent, row.Scope.App, row.Scope.Run,
		row.Actor, string(row.Trust), string(row.Source), row.Decision, row.SHA256))
}

// Bind inserts owners for objects that have none, and returns for each object the owner
// that is then stored, tombstones included. The owners are on disk when Bind returns.
// If several proxies or callers bind one id at once, the first wins and all get the
// same answer.
//
// The owner of a name (memproxy.TargetEntity) is a claim while it has a Decision: an entry
// can release it with ExpectedOwners and a tombstone, which removes the owner. Bind by the
// same tenant with another decision makes the claim permanent, by removing its decision.
func (l *Ledger) Bind(ctx context.Context, bound ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l.store, bound, func(*transaction, *memproxy.Ownership) bool { return false })
}

// Assign is Bind for names of owners that an operator lists. It gives a name that
// belongs to another tenant, or to none, to the row's tenant, unless another tenant has
// memories under that name that are not deleted.
func (l *Ledger) Assign(ctx context.Context, listed ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l.store, listed, func(t *transaction, row *memproxy.Ownership) bool {
		dim, name, _ := strings.Cut(row.ID, ":")
		t.saveRecords()
		return !t.one(`SELECT 1 FROM record WHERE backend = ?1 AND kind = 'memory' AND owned = 1 AND deleted = 0 AND tenant <> ?2
			AND CASE ?3 WHEN 'user' THEN "user" WHEN 'agent' THEN agent WHEN 'app' THEN app WHEN 'run' THEN run ELSE ?4 END = ?4 LIMIT 1`,
			[]any{row.Backend, row.Scope.Tenant, dim, name}, new(int64))
	})
}

// bindRows inserts owners. A row replaces the owner of another tenant if free allows it.
func bindRows(ctx context.Context, s *store, bound []memproxy.Ownership, free func(*transaction, *memproxy.Ownership) bool) ([]memproxy.Ownership, error) {
	own, err := copyOwners(bound)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	return changeResult(ctx, s, nil, func(t *transaction) []memproxy.Ownership {
		bound := make([]memproxy.Ownership, 0, len(own))
		for i := range own {
			row := &own[i]
			switch r := t.record(row.Key()); {
			case !r.HasOwner() || r.Owner.Scope.Tenant != row.Scope.Tenant && free(t, row):
				r.setOwner(row, t.now())
			case row.Kind == memproxy.TargetEntity && r.Owner.Scope.Tenant == row.Scope.Tenant && r.Owner.Decision != "" && r.Owner.Decision != row.Decision:
				kept := r.Owner
				kept.Decision = ""
				r.setOwner(&kept, t.now())
			}
			bound = append(bound, t.record(row.Key()).Owner)
		}
		return bound
	})
}

// maxText is the longest string of a row, in bytes. Ids are UUIDs or short slugs.
const maxText = 1024

// storable returns an error if a string cannot be part of a row. NUL and invalid UTF-8
// are refused because databases treat them differently: two ids that the database takes
// for the same would give two memories one owner.
func storable(s string) error { return storableUpTo(maxText, s) }

func storableUpTo(limit int, s string) error {
	switch {
	case len(s) > limit:
		return fmt.Errorf("longer than %d bytes", limit)
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("has a NUL")
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	}
	return nil
}

// storableParts returns an error if one of the parts is not storable. of says what they
// belong to.
func storableParts(of string, parts ...string) error {
	for _, s := range parts {
		if err := storable(s); err != nil {
			return invalidArgument("a part of the %s %v", of, err)
		}
	}
	return nil
}

// wrap adds the name of the failed call, or returns ErrClosed if that is the cause.
func (s *store) wrap(call string, err error) error {
	if closed := s.alive(); closed != nil {
		return closed
	}
	return fmt.Errorf("ledger: %s: %w", call, damaged(err))
}

// alive is ErrClosed once the ledger is closed.
func (s *store) alive() error {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return nil
}

// toMicros is the stored form of a time: microseconds since the epoch, 0 for the zero time.
func toMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// fromMicros is the inverse of toMicros.
func fromMicros(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at).UTC()
}
