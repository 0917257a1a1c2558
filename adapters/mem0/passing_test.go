package mem0

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves EDGE-13: every row that passes says why it may, and nothing else is
// said to pass.
func TestEveryPassingRowSaysWhy(t *testing.T) {
	said := map[string]bool{}
	for _, p := range passing {
		said[p.id] = true
		if len(p.why) < 10 {
			t.Errorf("%s: %q is no reason", p.id, p.why)
		}
	}
	for i := range table {
		r := &table[i]
		passes := r.flags&pass != 0
		if passes != said[r.id] {
			t.Errorf("%s passes: %v, says why: %v", r.id, passes, said[r.id])
		}
		if passes && (r.kind != memproxy.Other || r.method != "GET" || strings.Contains(r.path, "...")) {
			t.Errorf("%s passes and is no plain read", r.id)
		}
	}
}

// Proves EDGE-13, EDGE-3: what reads or changes configuration, keys, webhooks,
// projects, organisations and accounts is administration, in every row whose
// path is about them.
func TestAdministrationByPath(t *testing.T) {
	for i := range table {
		r := &table[i]
		for _, word := range []string{"configure", "api-keys", "auth", "webhook", "orgs", "settings", "/config/", "reset", "requests", "instructions"} {
			if strings.Contains(r.path, word) && r.kind != memproxy.Admin {
				t.Errorf("%s is %s", r.id, r.kind)
			}
		}
	}
}
