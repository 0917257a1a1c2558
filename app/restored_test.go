package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
)

// A restored ledger has writes that wait although they were sent since the backup. The
// backend is asked first, whether they were approved in the backup or are approved again:
// what it has is not sent a second time, and what it does not have is sent, and charged.
//
// Proves EDGE-11, TRL-6.
func TestRestoredHoldsAreNotSentTwice(t *testing.T) {
	t.Parallel()
	r := holding(t)
	held := func(text string) string {
		return heldID(t, r.do("POST", "/memories", fmt.Sprintf(`{"user_id":"bob","infer":false,"messages":[{"role":"user","content":%q}]}`, text)))
	}
	sent, waits := held("Bob sails."), held("Bob rows.")
	file, backup := filepath.Join(r.dir, "state", "ledger.db"), filepath.Join(t.TempDir(), "backup.db")
	r.stop() // a copy of its file is then a backup
	writeFile(t, backup, string(must.Get(os.ReadFile(file))(t)))
	r.run()
	done := func(id string) {
		t.Helper()
		r.review(id, true)
		ring.Until(t, "the end of the write", func() bool {
			h, err := r.car.ledger.Holds.Get(context.Background(), id)
			return err == nil && h.State == memproxy.HoldDone
		})
	}
	done(sent)
	r.stop()
	must.Do(t, ledger.Restore(context.Background(), backup, file, true))
	r.run()
	done(sent)
	done(waits)
	if list := r.do("GET", "/memories?user_id=bob", "").body; strings.Count(list, `"Bob sails."`) != 1 || strings.Count(list, `"Bob rows."`) != 1 {
		t.Errorf("written: %s", list)
	}
	if n := r.total("agent:dev"); n != 2 {
		t.Errorf("the author is charged for %d memories, not 2", n)
	}
}
