package mem0_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// passing says why each passing row may pass: it touches no memory, shows no keys and
// changes no setting of the installation.
var passing = map[string]string{
	"mem0.ping":           "public: a probe, which clients make when they are set up; the key's own account",
	"mem0.v1.stats":       "numbers: derived, so all of what they are made of must be the caller's to see",
	"mem0.server.root":    "public: leads to the documentation",
	"mem0.server.docs":    "public: documentation",
	"mem0.server.redoc":   "public: documentation",
	"mem0.server.openapi": "public: documentation",
}

// Proves EDGE-13: every passing row has a reason here, and no other row has.
func TestEveryPassingRowSaysWhy(t *testing.T) {
	adaptertest.Passing(t, adapter(t), passing)
	for at, rt := range adapter(t).Routes() {
		if rt.Pass && (!strings.HasPrefix(at, "GET ") || strings.Contains(at, "...")) {
			t.Errorf("%s passes and is no plain read", rt.ID)
		}
	}
}

// Proves EDGE-13, EDGE-3: every row whose path is about configuration, keys, webhooks,
// projects, organisations or accounts is administration.
func TestAdministrationByPath(t *testing.T) {
	for at, rt := range adapter(t).Routes() {
		for _, word := range []string{"configure", "api-keys", "auth", "webhook", "orgs", "settings", "/config/", "reset", "requests", "instructions"} {
			if strings.Contains(at, word) && rt.Kind != memproxy.Admin {
				t.Errorf("%s is %s", rt.ID, rt.Kind)
			}
		}
	}
}

// Proves EDGE-3: memories that everybody can read and write belong to no tenant, so that only
// administrators write there and read what anybody wrote.
func TestMemoriesOfEverybodyAreAdministration(t *testing.T) {
	a := adapter(t)
	for target, body := range map[string]string{
		"POST /v1/agent-rush/memories/":        `{"content":"the build is green"}`,
		"POST /v1/agent-rush/memories/search/": `{"query":"build"}`,
		"POST /v3/memories/add/":               `{"messages":[{"role":"user","content":"the build is green"}],"user_id":"ann"}`,
		"POST /v3/memories/search/":            `{"query":"build","filters":{"user_id":"ann"}}`,
	} {
		rt, req := routed(t, a, target)
		op := must.Get(a.Decode(rt, req, []byte(body)))(t)
		expect.Equal(t, op.Administers, strings.Contains(target, "rush"), target)
	}
}
