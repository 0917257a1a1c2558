package policy_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/policy"
)

// Proves EDGE-9: a tenant is compared by the row that applies to it, its own or that of
// all others.
func TestRowsOfTenantsAreCompared(t *testing.T) {
	of := func(rows map[string]memproxy.WriteLimit) policy.Bundle {
		l := memproxy.DefaultLimits()
		l.Tenants = rows
		return policy.Bundle{Limits: &l}
	}
	all, more, less := memproxy.WriteLimit{PerHour: 300}, memproxy.WriteLimit{PerHour: 1000}, memproxy.WriteLimit{PerHour: 100}
	for _, c := range []struct {
		from, to map[string]memproxy.WriteLimit
		want     []string
	}{
		{map[string]memproxy.WriteLimit{"*": all}, map[string]memproxy.WriteLimit{"*": all, "acme": more}, []string{"budgets.tenants.acme.writes_per_hour rises from 300 to 1000"}},
		{map[string]memproxy.WriteLimit{"*": all}, map[string]memproxy.WriteLimit{"*": all, "acme": less}, nil},
		{map[string]memproxy.WriteLimit{"*": less, "acme": more}, map[string]memproxy.WriteLimit{"*": less}, nil},
		{map[string]memproxy.WriteLimit{"acme": less}, nil, []string{"budgets.tenants.acme.writes_per_hour rises from 100 to no limit"}},
		{nil, map[string]memproxy.WriteLimit{"acme": less}, nil},
	} {
		if got := policy.Raised(of(c.from), of(c.to)); !slices.Equal(got, c.want) {
			t.Errorf("from %v to %v: %q", c.from, c.to, got)
		}
	}
}
