package redisstore

import (
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
)

func imitation(t *testing.T) (string, bool) {
	return "redis://" + miniredis.RunT(t).Addr(), true
}

// Proves CARD-4, TRL-6, TRL-8: the contract on an in-process imitation of Redis, whose
// clock follows the test's, so that windows expire.
func TestImitationKeepsTheContract(t *testing.T) {
	budgettest.Run(t, func(t *testing.T, clock *budgettest.Clock) budgets.Store {
		server := miniredis.RunT(t)
		clock.OnAdvance(server.FastForward)
		return connect(t, Options{URL: "redis://" + server.Addr()})
	})
}

// All keys but totals expire.
func TestKeysGoAway(t *testing.T) {
	server := miniredis.RunT(t)
	s := connect(t, Options{URL: "redis://" + server.Addr()})
	charges(t, s, charge("1", "acme", 3), 3)
	server.FastForward(2 * budgets.Length("hour"))
	if left := server.Keys(); len(left) != 1 || left[0] != "memproxy:{acme}:total:0:principal/a" {
		t.Errorf("left after two hours: %v", left)
	}
}
