package ledger_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves EDGE-14: what one answer brings is committed in parts, so that no other write
// waits for more than one of them, however many callers bring much at once. Everything of
// a memory is in one part.
func TestLargeEntriesAreCommittedInParts(t *testing.T) {
	var mu sync.Mutex
	var sizes []int // of the transactions, by versions
	opt := crashOptions(t, filepath.Join(ring.Dir(t), "ledger.db"))
	opt.OnSteps = func(steps []memproxy.Event) {
		mu.Lock()
		defer mu.Unlock()
		sizes = append(sizes, len(steps))
	}
	l := open(t, opt)
	const callers, each = 4, 600
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			e := memproxy.Entry{Queued: c%2 == 0}
			for i := range each {
				id := fmt.Sprint(c, "/", i)
				v := ledgertest.Version(id, "text of "+id)
				e.Owners = append(e.Owners, ledgertest.Row(id))
				e.Versions = append(e.Versions, v)
				e.States = append(e.States, memproxy.StateChange{MemoryKey: v.MemoryKey, Tenant: "acme", State: memproxy.StatePending})
			}
			slices.Reverse(e.States)
			expect.OK(t, l.Commit(t.Context(), e))
			// Commit waited for all parts: the last ones are there.
			for _, id := range []string{e.Owners[0].ID, e.Owners[each-1].ID} {
				got, err := ledger.ByID(t.Context(), l, e.Owners[0].Backend, memproxy.TargetMemory, id)
				r := got[id]
				expect.That(t, err == nil && r.HasOwner() && r.Status.State == memproxy.StatePending, "%s: %+v, %v", id, r, err)
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	most := slices.Max(append(sizes, 0))
	expect.That(t, most <= 128 && sum == callers*each, "%d versions in all, at most %d in a transaction; want %d and 128", sum, most, callers*each)
}

// Proves EDGE-14, EDGE-4: a decision becomes known with all of its memories, so that those
// of a large write do not count as copies of the ones that were recorded first.
func TestDecisionsOfLargeEntriesAreKnownAsAWhole(t *testing.T) {
	begun := make(chan struct{})
	transactions := 0
	opt := crashOptions(t, filepath.Join(ring.Dir(t), "ledger.db"))
	opt.OnSteps = func([]memproxy.Event) {
		if transactions++; transactions == 2 { // the first part is committed
			close(begun)
		}
	}
	l := open(t, opt)
	var e memproxy.Entry
	for i := range 4000 {
		id := fmt.Sprint(i)
		row := ledgertest.Row(id)
		row.Decision = "d"
		e.Owners = append(e.Owners, row)
		e.Versions = append(e.Versions, ledgertest.Version(id, "text of "+id))
	}
	last := e.Owners[len(e.Owners)-1]
	var wg sync.WaitGroup
	wg.Go(func() { expect.OK(t, l.Commit(t.Context(), e)) })
	<-begun
	if _, known, err := l.Decision(t.Context(), last.Backend, "d"); err != nil || !known {
		t.Errorf("%v, %v", known, err)
	}
	rows, err := l.Lookup(t.Context(), last.Key())
	if row := rows.Of(last.Key()); err != nil || !row.HasOwner() {
		t.Errorf("the decision is known and its last memory is not: %v", err)
	}
	wg.Wait()
}
