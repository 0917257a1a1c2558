package ledger

import (
	"context"
	"database/sql"
	"slices"
	"sync"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/memproxy/memproxy"
)

// keyFilter reports, without a query, keys that are certainly not in the store: the ids
// in the answer to an addition are new, and looking them up would cost a tenth of a
// write. It has Bloom filters over the keys of the two tables below. Keys are never
// removed from the filters, so a removed key costs a query. keyFilter is used only
// where this process alone writes the store (nil otherwise), and rules out no key until
// load has added the keys that were there at the start.
type keyFilter struct {
	mu      sync.Mutex
	filters []*bloom.BloomFilter // each has room for twice as many keys as the one before
	room    uint                 // number of keys that the last filter can still take
	sealed  map[string]bool      // sealed backends, in which an object without a record was written out-of-band
	loaded  bool                 // load has finished
}

// keySet selects a table: records for Lookup, versions for the writer.
type keySet byte

const (
	records  keySet = 'r'
	versions keySet = 'v'
)

const (
	// firstFilter is the number of keys that the first filter takes, in 160 KiB.
	firstFilter = 1 << 17
	// falsePositiveRate is the false positive rate of the filters.
	falsePositiveRate = 0.01
)

// filterKey returns the bytes that the filters hash for a key of a table.
func filterKey(set keySet, k *key) []byte {
	text := append(make([]byte, 0, 128), byte(set))
	for _, part := range [...]string{k.Backend, string(k.Kind), k.ID} {
		text = append(append(text, part...), 0) // a separator that no part contains
	}
	return text
}

// add adds a key to the filters of some tables, before it is written to the store.
func (s *keyFilter) add(k key, sets ...keySet) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, set := range sets {
		text := filterKey(set, &k)
		if s.has(text) {
			continue
		}
		if s.room == 0 {
			s.room = firstFilter << len(s.filters)
			s.filters = append(s.filters, bloom.NewWithEstimates(s.room, falsePositiveRate))
		}
		s.filters[len(s.filters)-1].Add(text)
		s.room--
	}
}

func (s *keyFilter) has(text []byte) bool {
	return slices.ContainsFunc(s.filters, func(f *bloom.BloomFilter) bool { return f.Test(text) })
}

// unknown reports whether a table certainly has no row for an object, and whether the
// object's backend is sealed.
func (s *keyFilter) unknown(set keySet, k key) (unknown, sealed bool) {
	if s == nil {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded && !s.has(filterKey(set, &k)), s.sealed[k.Backend]
}

// absent reports whether the store certainly has no record of an object, and returns
// what Lookup returns in that case: an empty record, or one that says that the sealed
// backend did not hold the object.
func (s *keyFilter) absent(k key) (rec memproxy.Record, absent bool) {
	unknown, sealed := s.unknown(records, k)
	if sealed {
		rec.Presence = memproxy.AddedAfterSeal
	}
	if unknown { // a history without a record means that the record was removed
		unknown, _ = s.unknown(versions, k)
	}
	return rec, unknown
}

func (s *keyFilter) seal(backends ...string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range backends {
		s.sealed[b] = true
	}
}

// load adds the keys that were there at the start; the writer adds later ones before it
// writes them. Until load has finished, and if it fails, every key is queried.
func (s *keyFilter) load(ctx context.Context, of *store) error {
	if s == nil {
		return nil
	}
	// The rows are streamed, because there may be a million.
	rows, err := of.reader.QueryContext(ctx,
		`SELECT 'r', backend, kind, id FROM record UNION ALL SELECT 'v', backend, kind, id FROM version`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var set sql.RawBytes
		var k key
		if err := rows.Scan(&set, &k.Backend, &k.Kind, &k.ID); err != nil {
			return err
		}
		s.add(k, keySet(set[0]))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	sealed, err := queryRows(ctx, of, "list sealed backends", scanOne[string], `SELECT backend FROM sealed`)
	if err != nil {
		return err
	}
	s.seal(sealed...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = true
	return nil
}
