package ledger_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
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
