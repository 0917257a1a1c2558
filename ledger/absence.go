package ledger

import (
	"context"
	"slices"
	"sync"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/memproxy/memproxy"
)

// keyFilter reports, without a query, keys of which the store certainly has neither a record
// nor a version: the ids in the answer to an addition are new, and looking them up would cost
// a tenth of a write. It is a series of Bloom filters. Keys are never removed, so a removed
// key costs a query. keyFilter is used only where this process alone writes the store (nil
// otherwise), and rules out no key until load has added the keys that were there at the start.
type keyFilter struct {
	mu      sync.Mutex
	filters []*bloom.BloomFilter // each has room for twice as many keys as the one before
	room    uint                 // number of keys that the last filter can still take
	sealed  map[string]bool      // sealed backends, in which an object without a record was written out-of-band
	loaded  bool                 // load has finished
}

const (
	firstFilter       = 1 << 17 // number of keys that the first filter takes, in 160 KiB
	falsePositiveRate = 0.01    // false positive rate of the filters
)

// filterKey returns the bytes that the filters hash for a key.
func filterKey(k *key) []byte {
	text := make([]byte, 0, 128)
	for _, part := range [...]string{k.Backend, string(k.Kind), k.ID} {
		text = append(append(text, part...), 0) // a separator that no part contains
	}
	return text
}

// add adds a key to the filters, before a row of it is written to the store.
func (s *keyFilter) add(k key) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := filterKey(&k)
	if s.has(text) {
		return
	}
	if s.room == 0 {
		s.room = firstFilter << len(s.filters)
		s.filters = append(s.filters, bloom.NewWithEstimates(s.room, falsePositiveRate))
	}
	s.filters[len(s.filters)-1].Add(text)
	s.room--
}

func (s *keyFilter) has(text []byte) bool {
	return slices.ContainsFunc(s.filters, func(f *bloom.BloomFilter) bool { return f.Test(text) })
}

// absent reports whether the store certainly has nothing of an object, and returns what
// Lookup returns in that case: an empty record, or one that says that the sealed backend
// did not hold the object.
func (s *keyFilter) absent(k key) (rec memproxy.Record, absent bool) {
	if s == nil {
		return rec, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed[k.Backend] {
		rec.Presence = memproxy.AddedAfterSeal
	}
	return rec, s.loaded && !s.has(filterKey(&k))
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
		`SELECT backend, kind, id FROM record UNION ALL SELECT backend, kind, id FROM version`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		k, err := scanKey(rows)
		if err != nil {
			return err
		}
		s.add(k)
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
