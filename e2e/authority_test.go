//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// authorityConfig has a person, an agent and a reviewing agent in front of one
// backend, by their tokens.
const authorityConfig = `profile: production
state: %%[3]s
admin: {listen: "%%[2]s"}
backends:
  - {name: back, kind: %s, listen: "%%[1]s", upstream: "%s", credential: "m0sk_e2e", credential_as: x-api-key}
identity:
  keys:
    - {sha256: "%s", id: "human:ann", kind: human, trust: human, tenant: acme, acts_as: "*"}
    - {sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
    - {sha256: "%s", id: "agent:reviewer", kind: agent, trust: authenticated, tenant: acme, acts_as: "*", roles: [memproxy-reviewer]}
log: {level: warn}
`

func serveAuthority(t *testing.T, kind, upstream string) *sidecar {
	t.Helper()
	return serve(t, t.TempDir(), fmt.Sprintf(authorityConfig, kind, upstream, sha("e2e-human"), sha("e2e-dev"), sha("e2e-reviewer")))
}

func bearer(token string) []string {
	return append([]string{"Authorization", "Bearer " + token}, sdk...)
}

// Proves EDGE-5, TRL-3, TRL-5: on the real Letta, the word of a person is not
// replaced by an agent's own tool, by the block's label or by its id; readers
// see it contested, and the person may. An author who is corrected gives less.
func TestAuthorityOnLetta(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serveAuthority(t, "letta", real)
	agent := newLettaAgent(t, real, "authority")
	a := call(t, http.MethodPost, car.base+"/v1/blocks/", "", `{"label":"notes","value":"Ann likes green tea"}`, bearer("e2e-human")...)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || made.ID == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	call(t, http.MethodPatch, car.base+"/v1/agents/"+agent+"/core-memory/blocks/attach/"+made.ID, "", "", bearer("e2e-human")...).want(t, 200)
	said := must.Get(json.Marshal("CALL memory_replace {\"label\":\"notes\",\"old_string\":\"green tea\",\"new_string\":\"coffee\"}\nTHEN\nSAY done"))(t)
	turn := `{"input":` + string(said) + `}`
	for path, body := range map[string]string{
		"/v1/agents/" + agent + "/messages":                 turn,
		"/v1/agents/" + agent + "/core-memory/blocks/notes": `{"value":"Ann likes coffee"}`,
		"/v1/blocks/" + made.ID:                             `{"value":"Ann likes coffee"}`,
	} {
		method := http.MethodPatch
		if body == turn {
			method = http.MethodPost
		}
		a := call(t, method, car.base+path, "", body, bearer("e2e-dev")...)
		expect.Equal(t, lettaBlocks(t, real, agent)["notes"], "Ann likes green tea", path, "it says", tail(a.body, 800))
		a.about(path, "it says", tail(a.body, 800)).has(t, "waits")
	}
	if a := call(t, http.MethodGet, car.base+"/v1/blocks/"+made.ID, "", "", bearer("e2e-dev")...); a.header.Get("X-Memproxy-Contested") != made.ID {
		t.Errorf("readers see %q as contested: %d %s", a.header.Get("X-Memproxy-Contested"), a.status, a.body)
	}
	if a := call(t, http.MethodPost, car.base+"/v1/agents/"+agent+"/messages", "", turn, bearer("e2e-human")...); lettaBlocks(t, real, agent)["notes"] != "Ann likes coffee" {
		t.Errorf("a person's own agent: %d %s", a.status, tail(a.body, 800))
	}

	var given []float64
	for i := range 2 {
		a := call(t, http.MethodPost, car.base+"/v1/blocks/", "", fmt.Sprintf(`{"label":"notes","value":"Ann skates %d times a week"}`, i), bearer("e2e-dev")...)
		var made struct {
			ID       string
			Metadata struct {
				Confidence float64 `json:"memproxy_confidence"`
			}
		}
		must.Do(t, json.Unmarshal([]byte(a.body), &made), a.status, a.body)
		given = append(given, made.Metadata.Confidence)
		call(t, http.MethodPatch, car.base+"/v1/blocks/"+made.ID, "", `{"value":"Ann does not skate"}`, bearer("e2e-human")...).want(t, 200)
	}
	if given[0] != 0.7 || given[1] >= 0.7 || given[1] < 0.6 {
		t.Errorf("given %v, want 0.7 and a little less", given)
	}
}

// Proves EDGE-5, TRL-3, TRL-5: the same on the real Mem0 engine, by update and
// deletion; a low word of one's own that is deleted and written anew stays low.
func TestAuthorityOnMem0(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serveAuthority(t, "mem0", eng.base)
	add := func(token, text, more string) string {
		t.Helper()
		a := call(t, http.MethodPost, car.base+"/memories", token, fmt.Sprintf(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":%q}]%s}`, text, more))
		var made struct{ Results []struct{ ID string } }
		must.Do(t, json.Unmarshal([]byte(a.body), &made), a.status, a.body)
		must.Len(t, made.Results, 1, a.status, a.body)
		return made.Results[0].ID
	}
	fact := func(id string) (m struct {
		Memory   string
		Metadata struct {
			Confidence float64 `json:"memproxy_confidence"`
		}
	}) {
		t.Helper()
		a := call(t, http.MethodGet, eng.base+"/memories/"+id, "m0sk_e2e", "")
		must.Do(t, json.Unmarshal([]byte(a.body), &m), a.status, a.body)
		return m
	}
	id := add("e2e-human", "Ann likes green tea.", "")
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		body := map[string]string{http.MethodPut: `{"text":"Ann likes coffee."}`}[method]
		call(t, method, car.base+"/memories/"+id, "e2e-dev", body).want(t, 403, method).has(t, "trust.authority")
		expect.Equal(t, fact(id).Memory, "Ann likes green tea.", method)
	}
	expect.Equal(t, call(t, http.MethodGet, car.base+"/memories/"+id, "e2e-dev", "").header.Get("X-Memproxy-Contested"), id, "readers see")
	low := add("e2e-dev", "Ann skis.", `,"metadata":{"confidence":0.2}`)
	if a := call(t, http.MethodPut, car.base+"/memories/"+low, "e2e-dev", `{"text":"Ann skates.","metadata":{"confidence":0.7}}`); a.status != 200 || fact(low).Metadata.Confidence != 0.2 {
		t.Errorf("raised by a correction: %d %s, %+v", a.status, a.body, fact(low))
	}
	call(t, http.MethodDelete, car.base+"/memories/"+low, "e2e-dev", "").want(t, 200)
	expect.Equal(t, fact(add("e2e-dev", "Ann skates!", `,"metadata":{"confidence":0.7}`)).Metadata.Confidence, 0.2, "written anew")
	peers := add("e2e-dev", "Ann plays go.", `,"metadata":{"confidence":0.9}`)
	call(t, http.MethodPut, car.base+"/memories/"+peers, "e2e-reviewer", `{"text":"Ann plays chess."}`).want(t, 200, "a reviewer")
	expect.Equal(t, fact(peers).Memory, "Ann plays chess.", "a reviewer")
	if got := fact(add("e2e-dev", "Ann swims.", `,"metadata":{"confidence":0.9}`)).Metadata.Confidence; got >= 0.7 || got < 0.6 {
		t.Errorf("after a correction: %v, want a little less than 0.7", got)
	}
}
