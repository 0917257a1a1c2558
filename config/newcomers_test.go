package config_test

import (
	"os"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
)

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
		if got := c.Waits()(memproxy.Principal{ID: tc.id, Trust: tc.trust}, tc.from, tc.track, now); got != tc.want {
			t.Errorf("%q: %s of tier %s with %+v waits: %v", tc.more, tc.id, tc.trust, tc.track, got)
		}
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
		if got := c.Waits()(who, "", memproxy.Track{}, now); got != tc.want {
			t.Errorf("%q, %s by %s waits: %v", tc.rules, tc.id, tc.method, got)
		}
		promoted := memproxy.Track{Facts: 10, Accepted: 10, Since: now.Add(-time.Hour)}
		if c.Waits()(who, "", promoted, now) {
			t.Errorf("%q, %s by %s waits still, though ten of its memories were promoted", tc.rules, tc.id, tc.method)
		}
	}
	dev, err := config.Parse("memproxy.yaml", []byte("profile: development\nbackends: [{name: m, kind: mem0, listen: \"127.0.0.1:1\", upstream: \"http://127.0.0.1:2\"}]\n"), os.Getenv)
	if err != nil || dev.Waits() != nil {
		t.Errorf("in development somebody waits (%v)", err)
	}
}
