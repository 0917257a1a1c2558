package config_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
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
	for _, l := range c.OwnerNames() {
		got = append(got, fmt.Sprintf("%s %s %s", l.ID, l.Tenant, l.Place))
	}
	want := "agent:dev acme m.yaml:6, user:ann acme m.yaml:6, user:bob acme m.yaml:6, user:zoe globex m.yaml:12, run:r initech m.yaml:16, agent:ci initech m.yaml:20, agent:dev2 initech m.yaml:20"
	expect.Equal(t, strings.Join(got, ", "), want)
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

// Proves TRL-9, MFW-2: in production, writes of anonymous and new callers await review;
// callers with a configured id, and those of higher tiers, are not new. Content from a
// hostile source always waits.
func TestWhoseWritesAwaitReview(t *testing.T) {
	const conf = `profile: production
backends: [{name: m, kind: mem0, listen: "127.0.0.1:1", upstream: "http://127.0.0.1:2"}]
identity:
  keys: [{sha256: "aa5ad5b0b1b1f4d5c0d1a1e9b7b1f4d5c0d1a1e9b7b1f4d5c0d1a1e9b7b1f4d5", id: "agent:dev"}]
  spiffe: {trust_domain: example.org, rules: [{path: /ci, id: "agent:ci"}, {path: "/*"}]}
`
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fresh := memproxy.Track{Facts: 9, Accepted: 9, Since: now.Add(-6 * 24 * time.Hour)}
	for _, tc := range []struct {
		more, id string
		trust    memproxy.Trust
		track    memproxy.Track
		from     memproxy.Source
		want     bool
	}{
		{"", "agent:dev", memproxy.TrustAuthenticated, memproxy.Track{}, "", false},
		{"", "agent:ci", memproxy.TrustAuthenticated, memproxy.Track{}, "", false},
		{"", "spiffe://example.org/x", memproxy.TrustAuthenticated, memproxy.Track{}, "", true},
		{"", "spiffe://example.org/x", memproxy.TrustAuthenticated, fresh, "", true},
		{"", "spiffe://example.org/x", memproxy.TrustAuthenticated, memproxy.Track{Facts: 10, Accepted: 10, Since: fresh.Since}, "", false},
		{"", "spiffe://example.org/x", memproxy.TrustAuthenticated, memproxy.Track{Facts: 1, Since: now.Add(-7 * 24 * time.Hour)}, "", false},
		{"", "spiffe://example.org/x", memproxy.TrustAuthenticated, memproxy.Track{Facts: 1}, "", false}, // from before the time was recorded
		{"", "spiffe://example.org/x", memproxy.TrustEstablished, memproxy.Track{}, "", false},
		{"", "spiffe://example.org/x", memproxy.TrustHuman, memproxy.Track{}, "", false},
		{"", "anonymous:0a0a0a0a0a0a0a0a", memproxy.TrustAnonymous, memproxy.Track{Facts: 99, Accepted: 99, Since: now.Add(-99 * 24 * time.Hour)}, "", true},
		{"memories: {new: {configured: true}}", "agent:dev", memproxy.TrustAuthenticated, memproxy.Track{}, "", true},
		{"memories: {new: {age: 1h}}", "spiffe://example.org/x", memproxy.TrustAuthenticated, fresh, "", false},
		{"memories: {new: {accepted: 5}}", "spiffe://example.org/x", memproxy.TrustAuthenticated, fresh, "", false},
		{"memories: {pending: [new]}", "anonymous:0a0a0a0a0a0a0a0a", memproxy.TrustAnonymous, memproxy.Track{}, "", true},
		{"", "agent:dev", memproxy.TrustAuthenticated, memproxy.Track{}, memproxy.SourceHostile, true},
		{"", "human:ann", memproxy.TrustHuman, memproxy.Track{}, memproxy.SourceHostile, true},
		{"", "agent:dev", memproxy.TrustAuthenticated, memproxy.Track{}, memproxy.SourceUntrusted, false},
		{"sources: {pending: [untrusted]}", "agent:dev", memproxy.TrustAuthenticated, memproxy.Track{}, memproxy.SourceUntrusted, true},
		{"sources: {pending: []}", "agent:dev", memproxy.TrustAuthenticated, memproxy.Track{}, memproxy.SourceHostile, false},
	} {
		c := must.Get(config.Parse("memproxy.yaml", []byte(conf+tc.more), os.Getenv))(t)
		expect.Equal(t, c.NeedsReview()(memproxy.Principal{ID: tc.id, Trust: tc.trust}, tc.from, tc.track, now), tc.want, tc.more, tc.id, "of tier", tc.trust, tc.track, "waits")
	}
	const issuer = conf + "  oidc: {issuer: \"https://issuer.example\", audience: memproxy, prefix: \"\""
	for _, tc := range []struct {
		rules, method, id string
		want              bool
	}{
		{"}", "oidc", "u-42", true},        // identified by an issuer alone
		{"}", "oidc", "agent:dev", true},   // also with the id of a key
		{"}", "spiffe", "agent:dev", true}, // or if a certificate claims it
		{"}", "key", "agent:dev", false},
		{"}", "", "agent:dev", false}, // a held write of the key's, once approved
		{", rules: [{subject: u-42, id: planner}, {subject: \"*\"}]}", "oidc", "planner", false},
		{", rules: [{subject: u-42, id: planner}, {subject: \"*\"}]}", "oidc", "u-43", true},
		{", rules: [{subject: u-42, id: planner}, {subject: \"*\"}]}", "key", "planner", true},
		{"}\n  default: {id: nobody, trust: authenticated}", "default", "nobody", true}, // one caller per session
		{"}\n  default: {id: pod, kind: agent, trust: authenticated}", "default", "pod", false},
	} {
		c := must.Get(config.Parse("memproxy.yaml", []byte(issuer+tc.rules+"\n"), os.Getenv))(t)
		who := memproxy.Principal{ID: tc.id, Method: tc.method, Trust: memproxy.TrustAuthenticated}
		expect.Equal(t, c.NeedsReview()(who, "", memproxy.Track{}, now), tc.want, tc.rules, tc.id, tc.method, "waits")
		promoted := memproxy.Track{Facts: 10, Accepted: 10, Since: now.Add(-time.Hour)}
		expect.Equal(t, c.NeedsReview()(who, "", promoted, now), false, tc.rules, tc.id, tc.method, "waits still, though ten of its memories were promoted")
	}
	dev, err := config.Parse("memproxy.yaml", []byte("profile: development\nbackends: [{name: m, kind: mem0, listen: \"127.0.0.1:1\", upstream: \"http://127.0.0.1:2\"}]\n"), os.Getenv)
	if err != nil || dev.NeedsReview() != nil {
		t.Errorf("in development somebody waits (%v)", err)
	}
}

// field is a key as described by its tags.
type field struct {
	Key, Doc, Default string
	Type              reflect.Type
	Enum, Keys        []string
	Min, Max          string
	Required          bool
	Loose             string
}

// fields lists the keys of a struct type.
func fields(t reflect.Type) (out []field) {
	words := func(s string) (out []string) {
		if s != "" {
			out = strings.Split(s, ",")
		}
		return out
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		tag := f.Tag.Get
		key, opts, _ := strings.Cut(tag("yaml"), ",")
		if opts == "inline" {
			for _, in := range fields(f.Type) {
				in.Required = in.Required && !slices.Contains(words(tag("optional")), in.Key)
				out = append(out, in)
			}
			continue
		}
		out = append(out, field{key, tag("doc"), tag("default"), f.Type, words(tag("enum")), words(tag("keys")), tag("min"), tag("max"), tag("required") == "true", tag("loose")})
	}
	return out
}

// A first configuration uses free ports other than the backend's.
func TestPortsAreFree(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	next := strconv.Itoa(port + 1)
	for _, backend := range []string{"1", next} {
		s := config.Starters()[0]
		s.Listen, s.Upstream = l.Addr().String(), "http://127.0.0.1:"+backend
		must.Do(t, s.Write(filepath.Join(t.TempDir(), "memproxy.yaml"), nil, false, func(string) string { return "" }))
		_, got, err := net.SplitHostPort(s.Listen)
		if n, _ := strconv.Atoi(got); err != nil || n <= port || got == backend {
			t.Errorf("%d is taken and %q the backend's: got %s, %v", port, backend, got, err)
		}
	}
	s := config.Starters()[0]
	s.Listen = "nowhere"
	expect.Error(t, s.Write(filepath.Join(t.TempDir(), "memproxy.yaml"), nil, false, func(string) string { return "" }), "an address without a port is taken")
}

// Callers without a tenant are separate from those with one, however they are identified.
// Proves EDGE-3
func TestSingleTenant(t *testing.T) {
	const key = "identity:\n  keys: [{sha256: \"" + someHash + "\", id: a, tenant: acme}]\n"
	for _, tc := range []struct {
		text string
		want bool
	}{
		{"", true},
		{key + "  require: true\n", true},
		{key + "  require: true\n  spiffe: {trust_domain: e.org, rules: [{path: /a, tenant: acme}]}\n", true},
		{key + "  require: true\n  spiffe: {trust_domain: e.org}\n", false},
		{key + "  require: true\n  oidc: {issuer: \"https://i.example\", audience: a}\n", false},
		{key + "  require: true\n  oidc: {issuer: \"https://i.example\", audience: a, rules: [{subject: s, tenant: acme}]}\n", true},
		{key, false}, // callers without a credential
		{"identity: {require: true, spiffe: {trust_domain: e.org}}\n", true},
	} {
		c := parse(t, tc.text+backend)
		expect.Equal(t, c.SingleTenant(), tc.want, tc.text)
		if names := c.CallerNames(); !names.OpenTenants && (len(names.Tenants) == 1) != tc.want {
			t.Errorf("%s: tenants %q", tc.text, names.Tenants)
		}
	}
}
