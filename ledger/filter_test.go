package ledger

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Unseen returns the keys in the store that the in-memory filters report as absent
// (false negatives); there must be none.
func Unseen(t testing.TB, l *Ledger) (missed []string) {
	t.Helper()
	ctx := context.Background() // the test's is over
	if l.filter == nil || l.Sync(ctx) != nil {
		return nil // which a test has closed or broken
	}
	l.loading.Wait()
	fresh := &keyFilter{sealed: map[string]bool{}}
	must.Do(t, fresh.load(ctx, l.store))
	for table, set := range map[string]keySet{"record": records, "version": versions} {
		rows := must.Get(l.reader.QueryContext(ctx, `SELECT backend, kind, id FROM `+table))(t)
		keys := must.Get(collect(rows, func(s scanner) (k key, err error) { return k, s.Scan(&k.Backend, &k.Kind, &k.ID) }))(t)
		for _, k := range keys {
			for name, s := range map[string]*keyFilter{"kept": l.filter, "loaded": fresh} {
				if unknown, _ := s.unknown(set, k); unknown {
					missed = append(missed, fmt.Sprintf("%s: %v in %s", name, k, table))
				}
			}
		}
	}
	return missed
}

// Proves EDGE-3: look-ups of absent records cost no query, in a sealed backend too,
// where they count as planted; records created later are found.
func TestAbsentRecordsCostNoQuery(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	there := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "there"}
	row := memproxy.Ownership{Backend: there.Backend, Kind: there.Kind, ID: there.ID, Actor: "agent:dev"}
	l := must.Get(Open(Options{Path: path, Timeout: ring.Limit}))(t)
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{row}}))
	must.Do(t, l.Backends.Seal(t.Context(), "sealed"))
	must.Do(t, l.Close())
	l = must.Get(Open(Options{Path: path, Timeout: ring.Limit}))(t)
	t.Cleanup(func() { _ = l.Close() })
	l.loading.Wait()
	expect.Len(t, must.Get(l.Lookup(t.Context(), there))(t), 1, "what was there at the start")
	broken := must.Get(l.reader.PrepareContext(t.Context(), `SELECT 'asked'`))(t)
	query, _ := l.queries.Swap(recordQuery, broken)
	defer l.queries.Store(recordQuery, query)
	absent, planted := there, there
	absent.ID, planted.Backend = "absent", "sealed"
	for range 2 {
		all, err := l.Lookup(t.Context(), absent, planted)
		if rec, ok := all[absent]; err != nil || ok || all[planted].Presence != memproxy.AddedAfterSeal {
			t.Errorf("absent: %+v; planted: %+v; %v", rec, all[planted], err)
		}
	}
	row.ID = absent.ID
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{row}}))
	must.Do(t, l.Sync(t.Context()))
	if all, err := l.Lookup(t.Context(), absent); err != nil || all[absent].Owner.Actor != row.Actor {
		t.Errorf("after it came to be: %+v, %v", all, err)
	}
}

// Proves EDGE-3: filters grow without losing keys.
func TestFiltersKeepTheirKeysWhenGrowing(t *testing.T) {
	ring.Long(t, "one key after another")
	s := &keyFilter{whole: true}
	id := func(i int) key { return key{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprint(i)} }
	const n, step = 3 * firstFilter, 7 // a filter that is lost loses all of its keys
	for i := range n {
		s.add(id(i), records)
	}
	wrong := 0
	for i := 0; i < 2*n; i += step {
		unknown, _ := s.unknown(records, id(i))
		if i < n && unknown {
			t.Fatalf("%d is unknown", i)
		}
		if i >= n && !unknown {
			wrong++
		}
		if other, _ := s.unknown(versions, id(i)); i < 1000 && !other {
			wrong++
		}
	}
	if len(s.filters) != 2 || wrong > n/step/25 {
		t.Errorf("%d filters take %d of %d unknown keys for known ones", len(s.filters), wrong, n/step)
	}
}
