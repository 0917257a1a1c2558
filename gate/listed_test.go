package gate_test

import (
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves EDGE-3: a name that the configuration lists for a caller is its tenant's
// before anybody has used it, and stays so: its first write binds it. A name that
// it lists for several tenants is the one's that writes first.
func TestListedNamesAreTheirTenants(t *testing.T) {
	write := func(user string) memproxy.Operation {
		op := learn("likes tea")
		op.Scope = memproxy.Scope{User: user}
		op.Claims = []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{user}, Pointer: "/user_id", Pins: true}}
		return op
	}
	for name, tc := range map[string]struct {
		listed []string
		mine   bool // the caller is limited to the name itself
		denied bool
		bound  bool
	}{
		"for another tenant":            {[]string{"globex"}, false, true, false},
		"for several others":            {[]string{"globex", "initech"}, false, true, false},
		"for the caller's":              {[]string{"acme"}, false, false, true},
		"for both":                      {[]string{"acme", "globex"}, false, false, true},
		"for nobody":                    {nil, false, false, true},
		"for the caller itself":         {[]string{"acme"}, true, false, true},
		"for the caller and for others": {[]string{"acme", "globex"}, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := tenants(t, func(r *rig) {
				r.rules.Listed = map[string][]string{"user:ann": tc.listed}
				if tc.mine {
					r.who.Users = only("ann")
				}
			})
			a := r.admit(write("ann"))
			if denied := a.Decision.Verdict == memproxy.Deny; denied != tc.denied {
				t.Errorf("%+v", a.Decision)
			}
			if row, bound := r.ledger.rows["user:ann"]; bound != tc.bound || bound && row.Scope.Tenant != "acme" {
				t.Errorf("bound %v: %+v", bound, row)
			}
		})
	}
}
