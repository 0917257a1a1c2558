// This test is about the work of a call, which no caller sees, so it is in the slow ring.

//go:build slow

package frontend

import (
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/ring"
)

// A new connection of a full address passes over no connections of others.
//
// Proves EDGE-14, EDGE-17.
func TestAFullAddressPassesOverNoOthers(t *testing.T) {
	ring.Linear(t, "connections of others", 1<<10, func(n int) time.Duration {
		cs := &Limit(nil, ListenOptions{}).conns
		cs.most, cs.mostPeer = 2*n, n // whatever the limit of open files
		enter := func(peer string, i int) bool {
			ok, _ := cs.admit(&Conn{conns: cs, peer: peer, remote: fmt.Sprint(peer, i)}, true)
			return ok
		}
		for i := range n {
			enter("another", i)
		}
		for i := range n {
			enter("full", i)
		}
		start := time.Now()
		for i := range n {
			if !enter("full", n+i) {
				t.Fatal("refused")
			}
		}
		return time.Since(start)
	})
}
