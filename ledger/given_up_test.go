package ledger_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves CARD-9: a caller that stops waiting for the writer shares no memory with it
// any more. The race detector checks that.
func TestCancelledCallsShareNothingWithTheWriter(t *testing.T) {
	var stall atomic.Pointer[chan struct{}] // the writer blocks here while it works
	entered := make(chan struct{}, 1)
	clock := func() time.Time {
		if wait := stall.Swap(nil); wait != nil {
			entered <- struct{}{}
			<-*wait
		}
		return time.Now()
	}
	l := open(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t), Clock: clock})
	for name, write := range map[string]func(context.Context) (bool, error){
		"a claim": func(ctx context.Context) (bool, error) { return l.Backends.Claim(ctx, "seal", "one", time.Hour) },
		"a breach": func(ctx context.Context) (bool, error) {
			return l.Chains.NoteBreach(ctx, memproxy.ChainFault{Tenant: "acme", Position: 1, Class: "truncate"})
		},
	} {
		ctx, giveUp := context.WithCancel(t.Context())
		wait := make(chan struct{})
		stall.Store(&wait)
		go func() {
			<-entered
			giveUp()
			close(wait) // unsynchronised on purpose
		}()
		if _, err := write(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.Backends.Claim(t.Context(), "after "+name, "one", time.Hour); err != nil { // the writer is done with it
			t.Error(err)
		}
	}
}

// Proves MFW-7: nothing is acknowledged while the ledger's file is removed, or another has
// its name: what is written to it would be lost. When it is back all goes on.
func TestRemovedFilesAreNotWritten(t *testing.T) {
	l, path := onFile(t)
	put := func(id string) error {
		hold, content := ledgertest.Held(id, "text of "+id)
		return expect.Err(l.Holds.Put(t.Context(), hold, content))
	}
	must.Do(t, put("before"))
	must.Do(t, os.Rename(path, path+".away"))
	expect.Error(t, put("meanwhile"), "it was held")
	expect.Error(t, l.Ping(t.Context()), "it is well")
	must.Do(t, os.WriteFile(path, must.Get(os.ReadFile(path+".away"))(t), 0o600))
	expect.Error(t, put("replaced"), "it was held")
	expect.OK(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{ledgertest.Row("m")}}), "it is in the redo log")
	must.Do(t, os.Rename(path+".away", path))
	expect.OK(t, put("after"))
	found := must.Get(ledger.ByID(t.Context(), l, "mem0", memproxy.TargetMemory, "m"))(t)
	expect.Equal(t, len(found), 1, "what was logged meanwhile")
	expect.OK(t, l.Ping(t.Context()))
}
