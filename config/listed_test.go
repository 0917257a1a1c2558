package config_test

import (
	"reflect"
	"testing"

	"github.com/memproxy/memproxy/config"
)

// Proves EDGE-3: whatever lists an owner's name for callers of a tenant makes it
// that tenant's: keys, the default caller, certificates and tokens.
func TestListedNames(t *testing.T) {
	names := func(s ...string) *config.Names { n := config.Names(s); return &n }
	c := &config.Config{Identity: config.Identity{
		Default: &config.Principal{ID: "d", Tenant: "acme", Apps: names("shop")},
		Keys: []config.Key{
			{Principal: config.Principal{ID: "a", Tenant: "acme", ActsAs: config.Names{"dev"}, Users: names("ann", "bob")}},
			{Principal: config.Principal{ID: "b", Tenant: "globex", ActsAs: config.Names{"*"}, Users: names("ann")}},
			{Principal: config.Principal{ID: "c", Tenant: "acme", Users: names("ann"), Runs: names("*")}},
		},
		SPIFFE: &config.SPIFFE{Rules: []config.SPIFFERule{{Principal: config.Principal{Tenant: "initech", Runs: names("r")}}}},
		OIDC:   &config.OIDC{Rules: []config.OIDCRule{{Principal: config.Principal{Tenant: "initech", ActsAs: config.Names{"ci"}}}}},
	}}
	want := map[string][]string{
		"user:ann": {"acme", "globex"}, "user:bob": {"acme"}, "agent:dev": {"acme"}, "app:shop": {"acme"}, "run:r": {"initech"}, "agent:ci": {"initech"},
	}
	if got := c.Listed(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
