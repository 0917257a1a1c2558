package memories_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/upkeep/memories"
)

// Proves EDGE-4: while the ledger cannot be used, changes without an answer keep waiting,
// and no more than a few of them are tried in a round.
func TestChangesWaitForTheLedger(t *testing.T) {
	l := must.Get(ledger.Open(ledger.Options{Timeout: ring.Limit, Clock: time.Now}))(t)
	must.Do(t, l.Close())
	k := &memories.Maintainer{Options: memories.Options{
		Ledger: l, Log: slog.New(slog.DiscardHandler), Unconfirmed: &memories.Unconfirmed{Log: slog.New(slog.DiscardHandler)}, Backend: func(string) *proxy.BackendClient { return &proxy.BackendClient{} },
	}, found: true}
	const n = 2 * maxFailures
	for i := range n {
		k.Unconfirmed.Add(memproxy.Event{Decision: fmt.Sprint(i), Kind: memproxy.Forget, Backend: "mem0", Targets: []string{"m"}})
	}
	for range 3 {
		expect.Error(t, k.outcomes(t.Context(), time.Now()), "no error")
	}
	expect.Equal(t, k.Unconfirmed.len(), n)
	if ev, _ := k.Unconfirmed.next(); ev.Decision != fmt.Sprint(3*maxFailures%n) {
		t.Errorf("the next is %s: some were not tried", ev.Decision)
	}
}

// Changes of many targets do not fill the memory.
func TestUnconfirmedChangesAreBounded(t *testing.T) {
	u, many := memories.Unconfirmed{Log: slog.New(slog.DiscardHandler)}, make([]string, maxUnconfirmed/2)
	for range 3 {
		u.Add(memproxy.Event{Targets: many})
		u.Add(memproxy.Event{Targets: many[:1]})
		if left := u.len(); u.size > maxUnconfirmed || left == 0 {
			t.Errorf("%d changes with %d targets wait", left, u.size)
		}
	}
	for ok := true; ok; {
		_, ok = u.next()
	}
	if u.Add(memproxy.Event{Targets: many}); u.len() != 1 {
		t.Error("none is taken after the last was asked about")
	}
}
