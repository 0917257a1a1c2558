package ledger_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// A cached absence is invalidated by a later write: whoever recorded a rejection or a
// retraction finds the lock or the text at once, also if others asked meanwhile.
//
// Proves SYN-7, TRL-5.
func TestCachedAbsencesAreInvalidated(t *testing.T) {
	clock := ledgertest.NewClock()
	l := open(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t), Clock: clock.Now, CacheSize: 1000})
	ctx := t.Context()
	stop := make(chan struct{})
	var askers sync.WaitGroup
	for range 4 {
		askers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := l.SessionLocked(ctx, "acme", "s1", "s2"); err != nil {
					t.Error(err)
					return
				}
				if _, _, err := l.Retraction(ctx, "acme", "agent:dev", []string{"Ann drinks green tea every morning."}, clock.Now().Add(-time.Hour)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer askers.Wait()
	defer close(stop)
	for i := range 3 {
		must.Equal(t, must.Get(l.SessionLocked(ctx, "acme", "s1", "s2"))(t, i).ID, "", "locked after", i)
		must.Get(l.NoteSession(ctx, memproxy.SessionEvent{Tenant: "acme", Principal: "agent:dev", Decision: string(rune('a' + i)), Verdict: memproxy.Deny}, "s2"))(t)
	}
	expect.Equal(t, must.Get(l.SessionLocked(ctx, "acme", "s1", "s2"))(t).ID, "s2", "after three rejections")
	must.Do(t, l.Commit(ctx, memproxy.Entry{Retractions: []memproxy.Retraction{{Tenant: "acme", Author: "agent:dev", Text: "Ann drinks green tea every morning.", Confidence: 300, Time: clock.Now()}}}))
	r, said, err := l.Retraction(ctx, "acme", "agent:dev", []string{"Ann drinks green tea every morning."}, clock.Now().Add(-time.Hour))
	expect.That(t, err == nil && said && r.Confidence == 300, "what was retracted: %+v %v %v", r, said, err)
}
