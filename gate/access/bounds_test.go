package access_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

func within(users ...string) map[memproxy.Dimension][]string {
	return map[memproxy.Dimension][]string{memproxy.DimUser: users}
}

// Proves EDGE-3: a read that is restricted to names that the caller may use may have further
// conditions on them; a summary, a bulk operation and a write may not.
func TestNarrowedReads(t *testing.T) {
	bobOnly := func(p *memproxy.Principal) { p.Users = only("bob") }
	none := func(p *memproxy.Principal) { p.ActsAs, p.Users, p.Apps, p.Runs = only(), only(), only(), only() }
	loose := memproxy.Claim{Dim: memproxy.DimUser, Op: memproxy.ClaimUnclear}
	for name, tc := range map[string]struct {
		limit func(*memproxy.Principal)
		op    memproxy.Operation
		want  []memproxy.ReasonCode
	}{
		"an exclusion of its user's":       {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{not("ann")}, Within: within("bob")}, nil},
		"an exclusion within more users":   {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{not("ann")}, Within: within("bob", "eve")}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"a wildcard within a member":       {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), loose}}, nil},
		"another within a member":          {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), is(memproxy.DimUser, "eve")}}, []memproxy.ReasonCode{memproxy.IdentityUser}},
		"an exclusion within nothing":      {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{not("ann")}, Within: within()}, nil},
		"an exclusion in another's limits": {none, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{not("ann")}, Within: map[memproxy.Dimension][]string{memproxy.DimRun: {}}}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"an exclusion in a summary":        {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Derived: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), not("ann")}, Within: within("bob")}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"an exclusion in a bulk read":      {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Bulk: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), not("ann")}, Within: within("bob")}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"an exclusion in a write":          {bobOnly, memproxy.Operation{Kind: memproxy.Learn, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), not("ann")}, Within: within("bob")}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
	} {
		if got := access.Bounds(caller(tc.limit), &tc.op); !slices.Equal(codes(got), tc.want) {
			t.Errorf("%s: %v, want %v", name, codes(got), tc.want)
		}
	}
}
