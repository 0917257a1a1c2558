package ledger_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Queued rows that are not in the file yet are found, the newest one first; afterwards
// they are in the file.
func TestPutIsVisibleBeforeItIsWritten(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	l, w := stalled(t, ledger.Options{Path: path, CacheSize: -1})
	w.still.Store(true)
	row := ledgertest.Row("a")
	for i := range 3 {
		row.SHA256 = fmt.Sprint("text ", i)
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{row}}))
		got := must.Get(ledger.ByID(t.Context(), l, row.Backend, row.Kind, "a"))(t, i)
		must.Equal(t, got["a"].Owner.SHA256, row.SHA256, "after Put", i, got["a"])
	}
	w.still.Store(false)
	w.free()
	must.Do(t, l.Sync(t.Context()))
	must.Do(t, l.Close())
	again := open(t, ledger.Options{Path: path})
	got := must.Get(ledger.ByID(t.Context(), again, row.Backend, row.Kind, "a"))(t)
	expect.Equal(t, got["a"].Owner.SHA256, "text 2", "reopened", got["a"], "the newest")
}

// A track record is read without waiting for the writer: every write of a new caller asks for it.
//
// Proves TRL-3, EDGE-15.
func TestTrackRecordsDoNotWaitForTheWriter(t *testing.T) {
	l, w := stalled(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db")})
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{ledgertest.Row("a")}}))
	w.still.Store(true)
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{ledgertest.Row("b")}}))
	track, err := l.Track(t.Context(), "acme", "agent:dev")
	w.free()
	expect.OK(t, err)
	expect.Equal(t, track.Facts, 1, "facts in the file")
}

// A sweep marks rows put before it and not those put after it, queued or written.
func TestSweepIsInOrderWithPuts(t *testing.T) {
	l := open(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db")})
	before, after := ledgertest.Row("before"), ledgertest.Row("after")
	ctx := context.Background()
	must.Do(t, l.Commit(ctx, memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{before}}))
	got, err := l.DeleteScope(ctx, before.Backend, memproxy.Scope{User: before.Scope.User}, new(memproxy.Version))
	must.That(t, err == nil && len(got.Tallies) == 1 && got.Tallies[0].Memories == 1, "%+v, %v: want one memory", got, err)
	must.Do(t, l.Commit(ctx, memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{after}}))
	for range 2 { // queued, then written
		rows, err := ledger.ByID(ctx, l, before.Backend, before.Kind, "before", "after")
		expect.That(t, err == nil && rows["before"].Owner.Deleted && !rows["after"].Owner.Deleted, "%+v, %v: want a tombstone before and none after", rows, err)
		must.Do(t, l.Sync(ctx))
	}
}
