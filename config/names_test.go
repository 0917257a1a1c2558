package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
)

const namesConf = `profile: production
backends:
  - {name: mem0, kind: mem0, listen: "127.0.0.1:8081", upstream: "http://127.0.0.1:8000"}
identity:
  keys:
    - {sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", id: a, tenant: acme, acts_as: [dev], users: [ann, bob]}
    - sha256: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
      id: b
      tenant: globex
      acts_as: "*"
      users:
        - zoe
  spiffe:
    trust_domain: example.org
    rules:
      - {path: /x, id: c, tenant: initech, runs: [r], apps: "*"}
  oidc:
    issuer: https://issuer.example
    audience: memproxy
    rules: [{subject: s, tenant: initech, acts_as: [ci, dev2], runs: [r]}]
`

// Proves EDGE-3: a name that keys, the default caller, certificates or tokens list for
// a tenant's callers belongs to that tenant; its place in the file is known.
func TestListedNames(t *testing.T) {
	c := must.Get(config.Parse("m.yaml", []byte(namesConf), os.Getenv))(t)
	var got []string
	for _, l := range c.Listed() {
		got = append(got, fmt.Sprintf("%s %s %s", l.ID, l.Tenant, l.Place))
	}
	want := "agent:dev acme m.yaml:6, user:ann acme m.yaml:6, user:bob acme m.yaml:6, user:zoe globex m.yaml:12, run:r initech m.yaml:16, agent:ci initech m.yaml:20, agent:dev2 initech m.yaml:20"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// Proves EDGE-3: a name listed for two tenants with a common store is a fault. One
// tenant may list it for many callers, and tenants with separate stores may both list
// it.
func TestNamesOfTwoTenants(t *testing.T) {
	for name, tc := range map[string]struct {
		change []string
		want   string // start of a fault; "": none
	}{
		"listed twice for one tenant": {[]string{"tenant: globex", "tenant: acme", "- zoe", "- ann"}, ""},
		"listed for two":              {[]string{"- zoe", "- bob"}, `m.yaml:12: user "bob" is listed for tenant "globex", and on line 6 for tenant "acme"; both use backend mem0`},
		"listed for one without a tenant": {[]string{"      tenant: globex\n", "", "- zoe", "- bob"},
			`m.yaml:11: user "bob" is listed for tenant ""`},
		"a user and an agent of one name":   {[]string{"- zoe", "- dev"}, ""},
		"by a token's rule":                 {[]string{"[ci, dev2]", "[ci, dev]"}, `m.yaml:20: agent "dev" is listed for tenant "initech"`},
		"on a backend of one of them":       {[]string{"- zoe", "- bob", "kind: mem0,", "kind: mem0, tenant: acme,"}, ""},
		"on backends of their own":          {[]string{"- zoe", "- bob", "kind: mem0,", "kind: mem0, tenant: acme,", "identity:", "  - {name: two, kind: mem0, tenant: globex, listen: \"127.0.0.1:8082\", upstream: \"http://127.0.0.1:8001\"}\nidentity:"}, ""},
		"a tenant with a control character": {[]string{"tenant: globex", `tenant: "\x01"`}, `m.yaml:9: tenant has a control character`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("m.yaml", []byte(strings.NewReplacer(tc.change...).Replace(namesConf)), os.Getenv)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
