package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// Proves SYN-1: who may not write a governed field may not change a memory of
// that field by its id either, though the payload does not name the field.
func TestFieldsHoldForChangesByID(t *testing.T) {
	const qaToken = "m0-qa-key"
	r := start(t, plain, `users: [ann]}`, `users: [ann]}
    - {sha256: "`+sha(qaToken)+`", id: "agent:qa", kind: agent, trust: authenticated, tenant: acme, roles: [qa, memproxy-reviewer], acts_as: [dev], users: [ann]}`)
	add := func(field string) string {
		t.Helper()
		a := r.do("POST", "/memories", strings.Replace(note, `"infer"`, `"metadata":{"field":"`+field+`"},"infer"`, 1))
		var added struct{ Results []struct{ ID string } }
		if err := json.Unmarshal([]byte(a.body), &added); err != nil || len(added.Results) != 1 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return added.Results[0].ID
	}
	conventions, gotchas := add("conventions"), add("gotchas") // dev may write both, qa the second only
	for id, want := range map[string]int{conventions: 403, gotchas: 200} {
		a := r.do("PUT", "/memories/"+id, `{"text":"changed by qa"}`, "X-API-Key", qaToken)
		if a.status != want {
			t.Errorf("%d %s, want %d", a.status, a.body, want)
		}
	}
	if a := r.do("PUT", "/memories/"+conventions, `{"text":"changed by dev"}`); a.status != 200 {
		t.Errorf("its own role: %d %s", a.status, a.body)
	}
}
