package ledgertest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/ledger"
)

// concurrent runs writers that raise the confidence of their own rows and readers of
// all rows: no reader sees a row go back, pairs that are written together are read
// together, and a writer reads what it wrote.
func concurrent(t *testing.T, s *ledger.Ledger) {
	const writers, readers, rounds = 8, 4, 40
	pair := func(w, round int) []memproxy.Ownership {
		a, b := Row(fmt.Sprintf("w%d-a", w)), Row(fmt.Sprintf("w%d-b", w))
		a.Confidence, b.Confidence = memproxy.PerMille(round), memproxy.PerMille(round)
		return []memproxy.Ownership{a, b}
	}
	var ids []string
	for w := range writers {
		ids = append(ids, pair(w, 0)[0].ID, pair(w, 0)[1].ID)
	}
	done := make(chan struct{})
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for round := 1; round <= rounds; round++ {
				if err := s.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: pair(w, round)}); err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				id := pair(w, 0)[0].ID
				got, err := ledger.ByID(t.Context(), s, "mem0", memproxy.TargetMemory, id)
				if err != nil || got[id].Owner.Confidence != memproxy.PerMille(round) {
					t.Errorf("round %d: read back %d, %v", round, got[id].Owner.Confidence, err)
					return
				}
			}
		})
	}
	for range readers {
		reading.Go(func() {
			last := map[string]memproxy.PerMille{}
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := ledger.ByID(t.Context(), s, "mem0", memproxy.TargetMemory, ids...)
				if err != nil {
					t.Errorf("Lookup: %v", err)
					return
				}
				for id, row := range got {
					if row.Owner.Confidence < last[id] {
						t.Errorf("%s went back from %d to %d", id, last[id], row.Owner.Confidence)
						return
					}
					last[id] = row.Owner.Confidence
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	for id, row := range owners(t, s, ids...) {
		expect.Equal(t, row.Confidence, rounds, id, "ends at")
	}
	expect.Equal(t, record(t, s, "acme", "agent:dev").Facts, 2*writers)
}
