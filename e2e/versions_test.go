//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

const reviewToken = "a-token-of-a-reviewer-long-enough"

// reviewedBy adds a reviewer to a configuration.
func reviewedBy(conf string) string {
	return conf + fmt.Sprintf("review: {reviewers: [{id: eve, sha256: %q, roles: [view, review, content], tenants: \"*\"}]}\n", sha(reviewToken))
}

// rollback goes back to a text by its hash, from the command line.
func (s *sidecar) rollback(t *testing.T, backend, id, text string) (string, int) {
	t.Helper()
	return run(t, []string{review.TokenEnv + "=" + reviewToken}, memproxyBinary(t),
		"memory", "rollback", "--admin", s.admin, "--backend", backend, "--sha256", sha(text), "--reason", "it was right", id)
}

// history are the operations of a memory's versions, the oldest first.
func (s *sidecar) history(t *testing.T, backend, id string) string {
	t.Helper()
	a := call(t, "GET", s.admin+"/v1/memories/"+backend+"/"+id+"/history", "", "", "Authorization", "Bearer "+reviewToken)
	var page review.HistoryAnswer
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != 200 && a.status != 404 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var ops []string
	for i := range page.Versions {
		ops = append([]string{string(page.Versions[i].Op)}, ops...)
	}
	return strings.Join(ops, " ")
}

// Proves SYN-5: what an agent of the real server writes into its own memory is
// a version with the text before and after, an insertion into its archive too,
// and a rollback by hash restores the exact earlier text.
func TestLettaSelfEditsAreVersions(t *testing.T) {
	t.Parallel()
	letta := lettaServer(t)
	dir := t.TempDir()
	policies := filepath.Join(dir, "policies")
	must.Do(t, os.MkdirAll(policies, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(policies, "own.cedar"), []byte(noPersona), 0o600))
	car := serve(t, dir, reviewedBy(fmt.Sprintf(lettaConfig, letta, policies)))
	agent := newLettaAgent(t, letta, "versions")
	var blocks []struct{ ID, Label string }
	a := call(t, "GET", letta+"/v1/agents/"+agent+"/core-memory/blocks", "", "", sdk...)
	must.Do(t, json.Unmarshal([]byte(a.body), &blocks), a.body)
	human := ""
	for _, b := range blocks {
		if b.Label == "human" {
			human = b.ID
		}
	}
	call(t, "POST", car.base+"/v1/agents/"+agent+"/messages", "", said(t, selfEdits, ""), sdk...).want(t, 200)
	waitFor(t, "the versions", func() bool { return car.history(t, "letta", human) == "seal self_edit self_edit" })
	must.Equal(t, lettaBlocks(t, letta, agent)["human"], "Ann\nlikes tea\nplays go")
	for _, text := range []string{"Ann\nlikes tea", "Ann"} {
		if out, code := car.rollback(t, "letta", human, text); code != 0 {
			t.Fatalf("exit %d: %s", code, out)
		}
		if got := lettaBlocks(t, letta, agent); got["human"] != text || got["persona"] != "helper" {
			t.Errorf("after the rollback: %q", got)
		}
	}
	expect.Equal(t, car.history(t, "letta", human), "seal self_edit self_edit rollback rollback")
	// What an outside tool run does is one as well.
	if a := call(t, "POST", car.base+"/v1/agents/"+agent+"/tools/memory_rethink/run", "", `{"args":{"label":"human","new_memory":"Ann plays chess."}}`, sdk...); a.status == 200 {
		waitFor(t, "the tool's version", func() bool { return strings.HasSuffix(car.history(t, "letta", human), "self_edit") })
	}
}

// Proves SYN-5: on the real Mem0 engine: a change and its rollback by hash; what
// was changed round memproxy is kept before it is overwritten; a memory that
// was deleted is remembered so and not rolled back.
func TestMem0Rollback(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), reviewedBy(fmt.Sprintf(`profile: production
state: %%[3]s
admin: {listen: "%%[2]s"}
backends:
  - {name: mem0, kind: mem0, listen: "%%[1]s", upstream: "%s", credential: m0sk_e2e, credential_as: x-api-key}
identity:
  keys:
    - {sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, acts_as: "*"}
log: {level: warn}
`, eng.base, sha("m0sk_e2e"))))
	a := call(t, "POST", car.base+"/memories", "m0sk_e2e", `{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann likes green tea."}]}`)
	var made struct{ Results []struct{ ID string } }
	must.Do(t, json.Unmarshal([]byte(a.body), &made), a.status, a.body)
	must.Len(t, made.Results, 1, a.status, a.body)
	id := made.Results[0].ID
	put := func(base, text string) {
		t.Helper()
		call(t, "PUT", base+"/memories/"+id, "m0sk_e2e", fmt.Sprintf(`{"text":%q}`, text)).want(t, http.StatusOK)
	}
	put(car.base, "Ann likes coffee.")
	waitFor(t, "the versions", func() bool { return car.history(t, "mem0", id) == "write update" })
	put(eng.base, "Ann likes water.") // round memproxy
	if out, code := car.rollback(t, "mem0", id, "Ann likes green tea."); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	call(t, "GET", eng.base+"/memories/"+id, "m0sk_e2e", "").about("after the rollback").has(t, "Ann likes green tea.").lacks(t, "water")
	expect.Equal(t, car.history(t, "mem0", id), "write update seal rollback")
	call(t, "GET", car.base+"/memories/"+id, "m0sk_e2e", "").want(t, 200, "read").has(t, "Ann likes green tea.")
	call(t, "DELETE", car.base+"/memories/"+id, "m0sk_e2e", "").want(t, 200)
	waitFor(t, "the deletion", func() bool { return strings.HasSuffix(car.history(t, "mem0", id), "delete") })
	if out, code := car.rollback(t, "mem0", id, "Ann likes coffee."); code == 0 {
		t.Errorf("a deleted memory was rolled back: %s", out)
	}
	if a := call(t, "GET", car.base+"/memories/"+id, "m0sk_e2e", ""); a.status == 200 && strings.Contains(a.body, "Ann likes") {
		t.Errorf("a deleted memory is read: %d %s", a.status, a.body)
	}
}

// Proves SYN-5, CARD-2: what is changed of an agent of the real server (its name,
// description and tags, and a block's description) is a version with what was
// there before, and a rollback by number puts it back through the server's route.
func TestLettaObjectsAreVersions(t *testing.T) {
	t.Parallel()
	letta := lettaServer(t)
	dir := t.TempDir()
	policies := filepath.Join(dir, "policies")
	must.Do(t, os.MkdirAll(policies, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(policies, "own.cedar"), []byte(noPersona), 0o600))
	car := serve(t, dir, reviewedBy(fmt.Sprintf(lettaConfig, letta, policies)))
	agent := newLettaAgent(t, letta, "objects")
	patch := func(path, body string) {
		t.Helper()
		call(t, "PATCH", car.base+path, "", body, sdk...).want(t, 200)
	}
	patch("/v1/agents/"+agent, `{"description":"first","tags":["one"]}`)
	patch("/v1/agents/"+agent, `{"name":"second","description":"second","tags":["two","three","alpha"]}`)
	waitFor(t, "the versions", func() bool { return car.history(t, "letta", agent) == "seal update update" })
	out, code := run(t, []string{review.TokenEnv + "=" + reviewToken}, memproxyBinary(t),
		"memory", "rollback", "--admin", car.admin, "--backend", "letta", "--version", "2", "--reason", "it was right", agent)
	if code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	call(t, "GET", letta+"/v1/agents/"+agent+"?include=agent.tags", "", "", sdk...).has(t, `"description":"first"`).lacks(t, `"second"`).has(t, `"tags":["one"]`)
	waitFor(t, "the rollback's version", func() bool { return car.history(t, "letta", agent) == "seal update update rollback" })
	var blocks []struct{ ID, Label string }
	b := call(t, "GET", letta+"/v1/agents/"+agent+"/core-memory/blocks", "", "", sdk...)
	must.Do(t, json.Unmarshal([]byte(b.body), &blocks), b.body)
	for _, one := range blocks {
		if one.Label != "human" {
			continue
		}
		patch("/v1/blocks/"+one.ID, `{"description":"about somebody else","metadata":{"team":"blue"}}`)
		out, code := run(t, []string{review.TokenEnv + "=" + reviewToken}, memproxyBinary(t),
			"memory", "rollback", "--admin", car.admin, "--backend", "letta", "--kind", "object", "--version", "1", "--reason", "it was right", one.ID)
		if code != 0 {
			t.Fatalf("%d %s", code, out)
		}
		call(t, "GET", letta+"/v1/blocks/"+one.ID, "", "", sdk...).lacks(t, "somebody else", "blue")
		call(t, "GET", car.base+"/v1/blocks/"+one.ID, "", "", sdk...).want(t, 200, "it is withheld")
	}
}
