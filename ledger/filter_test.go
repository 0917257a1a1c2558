package ledger_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
)

// unseen returns the objects of a ledger's file that Lookup takes for absent because of what
// it keeps in memory (false negatives); there must be none. Peek keeps nothing in memory.
// First the records are found, and then, without their records, the histories.
func unseen(t testing.TB, l *ledger.Ledger, opt ledger.Options) (missed []string) {
	t.Helper()
	ctx := context.Background() // the test's is over
	if opt.Path == "" || l.Sync(ctx) != nil {
		return nil // in memory, or a test has closed or broken it
	}
	db := opened(t, opt.Path)
	defer db.Close()
	for _, table := range []string{"record", "version"} {
		if l.Backends.Seal(ctx, "nothing") != nil { // nothing stays cached
			return nil
		}
		rows := must.Get(db.Query(`SELECT DISTINCT backend, kind, id FROM ` + table))(t)
		var all []memproxy.MemoryKey
		for rows.Next() {
			var k memproxy.MemoryKey
			must.Do(t, rows.Scan(&k.Backend, &k.Kind, &k.ID))
			all = append(all, k)
		}
		must.Do(t, rows.Err())
		if table == "version" {
			must.Get(db.Exec(`DELETE FROM record`))(t)
		}
		found, err := l.Lookup(ctx, all...)
		if err != nil {
			return nil
		}
		must.Do(t, ledger.Peek(opt, func(p *ledger.Ledger) error {
			there, err := p.Lookup(ctx, all...)
			for k, rec := range there {
				if got := found.Of(k); got.HasOwner() != rec.HasOwner() || got.HasStatus() != rec.HasStatus() {
					missed = append(missed, fmt.Sprintf("%v in %s", k, table))
				}
			}
			return err
		}))
	}
	return missed
}

// Proves EDGE-3: look-ups of absent records cost no query, in a sealed backend too,
// where they count as planted; records created later are found.
func TestAbsentRecordsCostNoQuery(t *testing.T) { synctest.Test(t, absentCostNoQuery) }

func absentCostNoQuery(t *testing.T) {
	opt := ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Timeout: ring.Limit}
	there := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "there"}
	row := memproxy.Ownership{Backend: there.Backend, Kind: there.Kind, ID: there.ID, Actor: "agent:dev"}
	l := must.Get(ledger.Open(opt))(t)
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{row}}))
	must.Do(t, l.Backends.Seal(t.Context(), "sealed"))
	must.Do(t, l.Close())
	l = must.Get(ledger.Open(opt))(t)
	defer func() { _ = l.Close() }()
	synctest.Wait() // it has read which records there are
	absent, planted := there, there
	absent.ID, planted.Backend = "absent", "sealed"
	vandalise(t, opt.Path, `ALTER TABLE record RENAME TO away`)
	expect.Error(t, expect.Err(l.Lookup(t.Context(), there)), "what was there at the start is found without a query")
	for range 2 {
		all, err := l.Lookup(t.Context(), absent, planted)
		rec, ok := all[absent]
		expect.That(t, err == nil && !ok && all.Of(planted).Presence == memproxy.AddedAfterSeal, "absent: %+v; planted: %+v; %v", rec, all.Of(planted), err)
	}
	vandalise(t, opt.Path, `ALTER TABLE away RENAME TO record`)
	expect.Len(t, must.Get(l.Lookup(t.Context(), there))(t), 1, "what was there at the start")
	row.ID = absent.ID
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{row}}))
	must.Do(t, l.Sync(t.Context()))
	expect.Equal(t, must.Get(l.Lookup(t.Context(), absent))(t).Of(absent).Owner.Actor, row.Actor, "after it came to be")
}
