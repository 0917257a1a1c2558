package ledger

import (
	"context"
	"slices"
	"sync"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/memproxy/memproxy"
)

// keyFilter answers for keys that are not in the store without a query: the ids in an
// addition's answer are new, and looking them up would cost a tenth of a write. It
// holds Bloom filters over the keys of the tables below. Keys are never removed from
// them, so a removed key is queried in vain. It is used only where this process alone
// writes the store (nil otherwise), and answers nothing until load has added the keys
// that were there at the start.
type keyFilter struct {
	mu      sync.Mutex
	filters []*bloom.BloomFilter // each for twice as many keys as the one before
	room    uint                 // keys that the last filter still has room for
	sealed  map[string]bool      // backends in which an unknown object was planted
	whole   bool                 // load has added what was there at the start
}

// keySet is a table of keys: records for Lookup, versions for the writer.
type keySet byte

const (
	records  keySet = 'r'
	versions keySet = 'v'
)

const (
	// firstFilter is how many keys the first filter holds, in 160 KiB.
	firstFilter = 1 << 17
	// falseSeen is the filters' rate of false positives.
	falseSeen = 0.01
)

// member is a key in a set as the filters hash it.
func member(set keySet, k *key) []byte {
	text := append(make([]byte, 0, 128), byte(set))
	for _, part := range [...]string{k.Backend, string(k.Kind), k.ID} {
		text = append(append(text, part...), 0) // which no part has
	}
	return text
}

// add notes keys before they are in the store.
func (s *keyFilter) add(k key, sets ...keySet) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, set := range sets {
		text := member(set, &k)
		if s.has(text) {
			continue
		}
		if s.room == 0 {
			s.room = firstFilter << len(s.filters)
			s.filters = append(s.filters, bloom.NewWithEstimates(s.room, falseSeen))
		}
		s.filters[len(s.filters)-1].Add(text)
		s.room--
	}
}

func (s *keyFilter) has(text []byte) bool {
	return slices.ContainsFunc(s.filters, func(f *bloom.BloomFilter) bool { return f.Test(text) })
}

// unknown reports whether the store certainly has nothing of an object, and
// whether its backend was sealed without it.
func (s *keyFilter) unknown(set keySet, k key) (unknown, sealed bool) {
	if s == nil {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole && !s.has(member(set, &k)), s.sealed[k.Backend]
}

// absent reports whether the store certainly has no record of an object, and
// what Lookup says then: nothing, unless the backend was sealed without it.
func (s *keyFilter) absent(k key) (rec memproxy.Record, absent bool) {
	unknown, sealed := s.unknown(records, k)
	if sealed {
		rec.Listing = memproxy.Unlisted
	}
	if unknown { // else its record was removed
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
// writes them. Until load is done, and after an error, every key is queried.
func (s *keyFilter) load(ctx context.Context, of *store) error {
	if s == nil {
		return nil
	}
	for table, set := range map[string]keySet{"record": records, "version": versions} {
		if err := s.loadKeys(ctx, of, table, set); err != nil {
			return err
		}
	}
	sealed, err := queryRows(ctx, of, "list sealed backends", scanOne[string], `SELECT backend FROM sealed`)
	if err != nil {
		return err
	}
	s.seal(sealed...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = true
	return nil
}

func (s *keyFilter) loadKeys(ctx context.Context, of *store, table string, set keySet) error {
	rows, err := of.reader.QueryContext(ctx, `SELECT backend, kind, id FROM `+table) // of a million keys, none is collected
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		k, err := scanKey(rows)
		if err != nil {
			return err
		}
		s.add(k, set)
	}
	return rows.Err()
}
