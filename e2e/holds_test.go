//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const holdsPolicy = `@id("own.hold") @reason("policy.forbid") @verdict("hold") @detail("this is looked at first")
forbid (principal, action == Action::"learn", resource) when { context.user == "bob" || resource == Memory::"letta" };`

// holdsPart is the configuration of a sidecar that holds, and of who reviews.
func holdsPart(t *testing.T, answer string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "own.cedar"), []byte(holdsPolicy), 0o644))
	return fmt.Sprintf("policy: {dir: %q}\nreview: {answer: %s, reviewers: [{id: eve, sha256: %q, tenants: \"*\"}]}\n", dir, answer, sha(reviewToken))
}

// settle is the reviewer's command.
func (s *sidecar) settle(t *testing.T, verb, id string) {
	t.Helper()
	out, code := run(t, []string{"MEMPROXY_REVIEW_TOKEN=" + reviewToken}, memproxyBinary(t), "holds", verb, "--admin", s.admin, "--reason", "seen", id)
	must.That(t, code == 0, "holds %s: %s", verb, out)
}

// script runs one call of a client and reads what it printed.
func script(t *testing.T, env []string, name string, args ...string) (text string, answer any) {
	t.Helper()
	out, code := run(t, append(env, "MEM0_TELEMETRY=false", "NO_PROXY=127.0.0.1"), name, args...)
	all := lines(out)
	must.That(t, code == 0 && len(all) > 0, "exit %d: %s", code, tail(out, 2000))
	text = all[len(all)-1]
	must.Do(t, json.Unmarshal([]byte(text), &answer), text)
	return text, answer
}

// mem0Clients are the clients of the hosted dialect, by the call of each.
func mem0Clients(t *testing.T) map[string]func(t *testing.T, base string, args ...string) (string, any) {
	python := part(t, "mem0-py", "bin", "python")
	py := func(env ...string) func(*testing.T, string, ...string) (string, any) {
		return func(t *testing.T, base string, args ...string) (string, any) {
			return script(t, env, python, append([]string{"holds/call_mem0.py", base, "m0-e2e"}, args...)...)
		}
	}
	js := func(name string) func(*testing.T, string, ...string) (string, any) {
		return func(t *testing.T, base string, args ...string) (string, any) {
			return script(t, nil, "node", append([]string{"holds/call_mem0.mjs", name, base, "m0-e2e"}, args...)...)
		}
	}
	return map[string]func(*testing.T, string, ...string) (string, any){
		"python": py(), "python 1.x, the v1 form": py("PYTHONPATH=" + part(t, "mem0-py1")),
		"npm": js("mem0ai"), "npm 2.x, the v1 form": js("mem0ai-v2"),
	}
}

// Proves MFW-7, DOL-2, CARD-1: the unmodified clients of Mem0 take the answer
// to a held write as that to one which takes its time, learn its end from the
// event as they would from the platform's, and read the memory once a reviewer
// approved it; a rejected one never is. Where holds are refused they raise
// their own errors. The self-hosted server's clients are told that nothing was
// extracted.
func TestHeldWritesInMem0Clients(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	// What is approved is sent with the sidecar's own credential.
	car := serve(t, t.TempDir(), dropin(eng, ", credential: m0-e2e", holdsPart(t, "accept")))
	strict := serve(t, t.TempDir(), dropin(eng, "", holdsPart(t, "refuse")))
	for name, client := range mem0Clients(t) {
		t.Run(name, func(t *testing.T) {
			for i, verb := range []string{"approve", "reject"} {
				said := fmt.Sprintf("Bob sails %d times a year, says %s", 40+i, name)
				text, answer := client(t, car.base, "add", "bob", said)
				id := member(answer, "event_id", "eventId")
				must.That(t, id != "" && strings.Contains(text, "PENDING") && !strings.Contains(text, "raised"), "add: %s", text)
				_, list := answer.([]any)
				object, _ := answer.(map[string]any)
				_, wrapped := object["results"]
				expect.That(t, strings.Contains(name, "v1 form") == (list || wrapped), "the form: %s", text)
				if text, _ := client(t, car.base, "event", id); !strings.Contains(text, `"PENDING"`) {
					t.Errorf("before: %s", text)
				}
				car.settle(t, verb, id)
				want := map[string]string{"approve": "SUCCEEDED", "reject": "FAILED"}[verb]
				waitFor(t, "the event "+want, func() bool { // asked without a client, each of which is a process
					return strings.Contains(call(t, "GET", car.base+"/v1/event/"+id+"/", "", "", "Authorization", "Token m0-e2e").body, want)
				})
				text, event := client(t, car.base, "event", id)
				expect.Text(t, text).Has(want)
				var memory string
				if m, ok := event.(map[string]any); ok {
					memory = member(m["results"], "id")
				}
				if verb == "reject" {
					call(t, "GET", eng.base+"/memories?user_id=bob", "m0sk_e2e", "").about("rejected, and written").lacks(t, said)
					continue
				}
				text, _ = client(t, car.base, "get", memory)
				expect.That(t, memory != "" && strings.Contains(text, said), "the memory %q: %s", memory, text)
			}
			text, answer := client(t, strict.base, "add", "bob", "Bob rows.")
			if is := member(answer, "name", "raised"); is != "AuthenticationError" && is != "APIError" { // the SDKs' own, of a 403
				t.Errorf("refused: %s", text)
			}
			text, _ = client(t, strict.base, "add", "ann", "Ann rows.")
			expect.That(t, !strings.Contains(text, "raised"), "the nearest that passes: %s", text)
		})
	}
	car = serve(t, t.TempDir(), dropin(eng, lent["mem0"], holdsPart(t, "accept")))
	body := `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob climbs."}]}`
	a := call(t, "POST", car.base+"/memories", "m0sk_e2e", body)
	id := decisionID(a)
	must.That(t, a.status == 200 && strings.TrimSpace(a.body) == `{"results":[]}` && id != "", "the server's form: %d %s", a.status, a.body)
	car.settle(t, "approve", id)
	waitFor(t, "the server's memory", func() bool {
		return strings.Contains(call(t, "GET", car.base+"/memories?user_id=bob", "m0sk_e2e", "").body, "Bob climbs.")
	})
	call(t, "POST", strict.base+"/memories", "m0sk_e2e", body).want(t, 403, "refused").has(t, "memproxy_held")
}

// Proves MFW-7, CARD-1: the unmodified Letta client takes a held passage for
// one that came to nothing, and reads it once it is approved; where holds are
// refused it raises its own error.
func TestHeldPassagesInLettaClients(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	write := func(base, agent, text string) (string, map[string]any) {
		t.Helper()
		line, answer := script(t, []string{"PYTHONPATH=" + part(t, "letta-sdk")}, part(t, "letta-py", "bin", "python"),
			"-W", "ignore::DeprecationWarning", "holds/call_letta.py", base, agent, text)
		return line, answer.(map[string]any)
	}
	_, made := write(real, "-", "The sky over Bern is blue.")
	agent, _ := made["agent"].(string)
	car := serve(t, t.TempDir(), lettaDropin(real)+holdsPart(t, "accept"))
	line, told := write(car.base, agent, "Grass in Uri is green.")
	if answer, ok := told["answer"].([]any); !ok || len(answer) > 0 || strings.Contains(line, "Grass") || !strings.Contains(line, "Bern") {
		t.Fatalf("told %s", line)
	}
	out, code := run(t, []string{"MEMPROXY_REVIEW_TOKEN=" + reviewToken}, memproxyBinary(t), "holds", "list", "--admin", car.admin, "--json")
	var page struct{ Holds []struct{ ID string } }
	err := json.Unmarshal([]byte(out), &page)
	must.That(t, code == 0 && err == nil && len(page.Holds) == 1, "%d %v: %s", code, err, out)
	car.settle(t, "approve", page.Holds[0].ID)
	waitFor(t, "the passage", func() bool {
		line, _ := write(car.base, agent, "")
		return strings.Contains(line, "Grass in Uri is green.")
	})
	strict := serve(t, t.TempDir(), lettaDropin(real)+holdsPart(t, "refuse"))
	line, told = write(strict.base, agent, "Coal is black.")
	expect.That(t, told["raised"] == "PermissionDeniedError" && !strings.Contains(fmt.Sprint(told["reads"]), "Coal"), "refused: %s", line)
}
