package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Dangerous spans are removed from Letta's blocks when created or changed, and from
// changes of Mem0's memories.
//
// Proves GOV-5, DOL-4
func TestChangesAreRewritten(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, someAgent, lettaConf+"memories: {rewrite: soft}\n", func(h http.Handler) http.Handler { return h })
	auth := []string{"Authorization", "Bearer " + devToken}
	const rewritten = "Ann sails. [PATTERN_001]"
	block := func(method, path, body string) (id, value string) {
		t.Helper()
		a := l.do(method, path, body, auth...)
		var b struct{ ID, Value string }
		if err := json.Unmarshal([]byte(a.body), &b); err != nil || a.status != 200 || !strings.HasPrefix(a.header.Get("X-Memproxy-Decision"), "amend") {
			t.Fatalf("%d %s %s", a.status, a.header.Get("X-Memproxy-Decision"), a.body)
		}
		return b.ID, b.Value
	}
	said, _ := json.Marshal("Ann sails. " + poison)
	id, value := block("POST", "/v1/blocks/", `{"label":"human","value":`+string(said)+`}`)
	if value != rewritten {
		t.Errorf("made as %q", value)
	}
	l.do("PATCH", "/v1/blocks/"+id, `{"value":"Ann rows."}`, auth...).want(t, 200).has(t, `"value":"Ann rows."`)
	if _, value = block("PATCH", "/v1/blocks/"+id, `{"value":`+string(said)+`}`); value != rewritten {
		t.Errorf("changed to %q", value)
	}

	r := rewording(t, "soft")
	memory := r.written("Ann rows.", "")
	r.do("PUT", "/memories/"+memory, `{"text":`+string(said)+`}`).want(t, 200)
	if list := r.listed(); !strings.Contains(list, rewritten) || strings.Contains(list, "invoices") {
		t.Errorf("changed to %s", list)
	}
}
