// This test is about the work of a call, which no caller sees, so it is in the slow ring.

//go:build slow

package frontend

import (
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// A new connection of a full address passes over no connections of others.
//
// Proves EDGE-14, EDGE-17.
func TestAFullAddressPassesOverNoOthers(t *testing.T) {
	ring.Linear(t, "connections of others", 1<<10, func(n int) func() {
		cs := &Limit(nil, ListenOptions{}).conns
		cs.most, cs.mostPeer = 2*n, n // whatever the limit of open files
		enter := func(peer string) bool {
			ok, _ := cs.admit(&Conn{conns: cs, peer: peer}, true)
			return ok
		}
		for range n {
			enter("another")
		}
		for range n {
			enter("full")
		}
		return func() {
			for range n {
				must.That(t, enter("full"), "refused")
			}
		}
	})
}
