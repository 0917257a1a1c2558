//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

const reviewToken = "a-token-of-a-reviewer-long-enough"

// reviewedBy adds a reviewer to a configuration.
func reviewedBy(conf string) string {
	return conf + fmt.Sprintf("review: {reviewers: [{id: eve, sha256: %q, roles: [view, review, content], tenants: \"*\"}]}\n", sha(reviewToken))
}

// rollback goes back to a version of a memory, from the command line.
func (s *sidecar) rollback(t *testing.T, backend, id string, version ...string) (string, int) {
	t.Helper()
	args := append([]string{"memory", "rollback", "--admin", s.admin, "--backend", backend, "--reason", "it was right"}, version...)
	return run(t, []string{review.TokenEnv + "=" + reviewToken}, memproxyBinary(t), append(args, id)...)
}

// rolledBack is rollback, which has to succeed.
func (s *sidecar) rolledBack(t *testing.T, backend, id string, version ...string) {
	t.Helper()
	out, code := s.rollback(t, backend, id, version...)
	must.Equal(t, code, 0, "rollback", out)
}

// history are the operations of a memory's versions, the oldest first.
func (s *sidecar) history(t *testing.T, backend, id string) string {
	t.Helper()
	a := call(t, "GET", s.admin+"/v1/memories/"+backend+"/"+id+"/history", "", "", "Authorization", "Bearer "+reviewToken)
	var page review.HistoryAnswer
	err := json.Unmarshal([]byte(a.body), &page)
	must.That(t, err == nil && (a.status == 200 || a.status == 404), "%d %s", a.status, a.body)
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
	car := serve(t, t.TempDir(), reviewedBy(lettaConf(t, letta, "")))
	agent := newLettaAgent(t, letta, "versions")
	human := id(t, call(t, "GET", letta+"/v1/agents/"+agent+"/core-memory/blocks/human", "", "", sdk...))
	call(t, "POST", car.base+"/v1/agents/"+agent+"/messages", "", said(t, selfEdits, ""), sdk...).want(t, 200)
	waitFor(t, "the versions", func() bool { return car.history(t, "letta", human) == "seal self_edit self_edit" })
	must.Equal(t, lettaBlocks(t, letta, agent)["human"], "Ann\nlikes tea\nplays go")
	for _, text := range []string{"Ann\nlikes tea", "Ann"} {
		car.rolledBack(t, "letta", human, "--sha256", sha(text))
		got := lettaBlocks(t, letta, agent)
		expect.That(t, got["human"] == text && got["persona"] == "helper", "after the rollback: %q", got)
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
	car := serve(t, t.TempDir(), reviewedBy(sidecarConf("production", "mem0", eng.base, lent["mem0"], "identity:\n  keys:\n"+keyed("m0sk_e2e", "agent:dev", ", trust: authenticated"))))
	id := id(t, call(t, "POST", car.base+"/memories", "m0sk_e2e", writtenText("Ann likes green tea.", "ann")))
	put := func(base, text string) {
		t.Helper()
		call(t, "PUT", base+"/memories/"+id, "m0sk_e2e", fmt.Sprintf(`{"text":%q}`, text)).want(t, http.StatusOK)
	}
	put(car.base, "Ann likes coffee.")
	waitFor(t, "the versions", func() bool { return car.history(t, "mem0", id) == "write update" })
	put(eng.base, "Ann likes water.") // round memproxy
	car.rolledBack(t, "mem0", id, "--sha256", sha("Ann likes green tea."))
	call(t, "GET", eng.base+"/memories/"+id, "m0sk_e2e", "").about("after the rollback").has(t, "Ann likes green tea.").lacks(t, "water")
	expect.Equal(t, car.history(t, "mem0", id), "write update seal rollback")
	call(t, "GET", car.base+"/memories/"+id, "m0sk_e2e", "").want(t, 200, "read").has(t, "Ann likes green tea.")
	call(t, "DELETE", car.base+"/memories/"+id, "m0sk_e2e", "").want(t, 200)
	waitFor(t, "the deletion", func() bool { return strings.HasSuffix(car.history(t, "mem0", id), "delete") })
	out, code := car.rollback(t, "mem0", id, "--sha256", sha("Ann likes coffee."))
	expect.That(t, code != 0, "a deleted memory was rolled back: %s", out)
	a := call(t, "GET", car.base+"/memories/"+id, "m0sk_e2e", "")
	expect.That(t, a.status != 200 || !strings.Contains(a.body, "Ann likes"), "a deleted memory is read: %d %s", a.status, a.body)
}

// Proves SYN-5, CARD-2: what is changed of an agent of the real server (its name,
// description and tags, and a block's description) is a version with what was
// there before, and a rollback by number puts it back through the server's route.
func TestLettaObjectsAreVersions(t *testing.T) {
	t.Parallel()
	letta := lettaServer(t)
	car := serve(t, t.TempDir(), reviewedBy(lettaConf(t, letta, "")))
	agent := newLettaAgent(t, letta, "objects")
	patch := func(path, body string) {
		t.Helper()
		call(t, "PATCH", car.base+path, "", body, sdk...).want(t, 200)
	}
	patch("/v1/agents/"+agent, `{"description":"first","tags":["one"]}`)
	patch("/v1/agents/"+agent, `{"name":"second","description":"second","tags":["two","three","alpha"]}`)
	waitFor(t, "the versions", func() bool { return car.history(t, "letta", agent) == "seal update update" })
	car.rolledBack(t, "letta", agent, "--version", "2")
	call(t, "GET", letta+"/v1/agents/"+agent+"?include=agent.tags", "", "", sdk...).has(t, `"description":"first"`).lacks(t, `"second"`).has(t, `"tags":["one"]`)
	waitFor(t, "the rollback's version", func() bool { return car.history(t, "letta", agent) == "seal update update rollback" })
	human := id(t, call(t, "GET", letta+"/v1/agents/"+agent+"/core-memory/blocks/human", "", "", sdk...))
	patch("/v1/blocks/"+human, `{"description":"about somebody else","metadata":{"team":"blue"}}`)
	car.rolledBack(t, "letta", human, "--kind", "object", "--version", "1")
	call(t, "GET", letta+"/v1/blocks/"+human, "", "", sdk...).lacks(t, "somebody else", "blue")
	call(t, "GET", car.base+"/v1/blocks/"+human, "", "", sdk...).want(t, 200, "it is withheld")
}

// lateAnswers keeps the answers to changes back that came by one of two sidecars, until
// they may go.
type lateAnswers struct {
	http.Handler
	made, free chan struct{} // a change was made; its answer may go
}

func (l *lateAnswers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Late") == "" {
		l.Handler.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body) // a caller that breaks off is answered by the backend
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	l.Handler.ServeHTTP(answer, r)
	l.made <- struct{}{}
	<-l.free
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a sidecar that gave up does not read it
}

// Two sidecars on one ledger change one memory at once, so that the change that the
// backend took first is the last that the ledger hears of: what the ledger knows is what
// the backend has, nobody is accused of having gone around memproxy, and what was
// deleted is gone for both.
//
// Proves EDGE-4, TRL-5, SYN-5.
func TestChangesAtOnceByTwoSidecars(t *testing.T) {
	t.Parallel()
	addr := freeport.Addr(t)
	startPostgres(t, t.TempDir(), addr)
	back := &lateAnswers{Handler: startMem0(t), made: make(chan struct{}), free: make(chan struct{})}
	srv := httptest.NewServer(back)
	t.Cleanup(srv.Close)
	a, b := twins(t, srv.URL, postgresURL(addr))
	for i, tc := range []struct {
		name, first, second string // of the changes, and the history afterwards
		text                string // that is there; "": it is gone
		history             string // of what the second found, "seal"
	}{
		{"two texts", "milk", "beer", "beer", "write seal update"},
		{"a text and a deletion", "milk", "", "", "write seal delete"},
		{"the same text", "milk", "milk", "milk", "write update"},
		{"two deletions", "", "", "", "write delete"},
	} {
		id := writtenAt(t, a, fmt.Sprintf("Ann likes tea number %d.", i))
		change := func(car *sidecar, drink string, header ...string) answer {
			if drink == "" {
				return call(t, "DELETE", car.base+"/memories/"+id, "k", "", header...)
			}
			return call(t, "PUT", car.base+"/memories/"+id, "k", fmt.Sprintf(`{"text":"Ann likes %s."}`, drink), header...)
		}
		done := make(chan answer)
		go func() { done <- change(a, tc.first, "X-Late", "1") }()
		<-back.made
		second := change(b, tc.second)
		back.free <- struct{}{}
		first := <-done
		expect.That(t, first.status == 200 && (second.status == 200 || tc.name == "two deletions"), "%s: %d %s, %d %s", tc.name, first.status, first.body, second.status, second.body)
		for name, car := range map[string]*sidecar{"first": a, "second": b} {
			got := call(t, "GET", car.base+"/memories/"+id, "k", "")
			if tc.text == "" && got.status != 404 && got.body != "null" || tc.text != "" && (got.status != 200 || !strings.Contains(got.body, tc.text) || got.header.Get("X-Memproxy-Unverified") != "") {
				t.Errorf("%s, at the %s: %d %v %s", tc.name, name, got.status, got.header, got.body)
			}
			expect.Equal(t, car.history(t, "mem0", id), tc.history, tc.name, "at the", name, "its history is")
		}
	}
}
