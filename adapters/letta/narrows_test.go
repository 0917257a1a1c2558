package letta_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-3, EDGE-13: an aggregate is narrowed by a parameter that its route
// defines and not by one that the server ignores; a list, whose entries are checked one
// by one, is narrowed by any.
func TestParametersThatNarrow(t *testing.T) {
	for target, want := range map[string]bool{
		"/v1/tags/?identity_id=identity-1":              false,
		"/v1/tags/?agent_id=agent-1":                    false,
		"/v1/groups/count?user_id=ann":                  false,
		"/v1/agents/count?agent_id=agent-1":             false,
		"/v1/agents/count?identity_id=identity-1":       true,
		"/v1/agents/count?identifier_keys=ann":          true,
		"/v1/agents/?identity_id=identity-1":            true,
		"/v1/identities/count?identity_id=identity-1":   false,
		"/v1/folders/metadata?agent_id=agent-1":         false,
		"/v1/embeddings/total_storage_size?user_id=ann": false,
	} {
		op := decode(t, adapter(t), "GET", target, "")
		pins := slices.ContainsFunc(op.Claims, func(c memproxy.Claim) bool { return c.Pins && c.Op == memproxy.ClaimIs })
		expect.Equal(t, pins, want, target, "narrowed is", op.Claims)
	}
}
