//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
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

var updateApproved = flag.Bool("update-approved", false, "write the texts that are shipped approved anew")

const approvedTexts = "../screen/approved/texts.txt"

// instructed is what a client tells a model: the place of each text.
type instructed struct {
	mu    sync.Mutex
	texts map[string]string
}

func (in *instructed) take(place string, v any) {
	switch v := v.(type) {
	case string:
		if strings.Contains(strings.TrimSpace(v), " ") {
			in.texts[v] = place
		}
	case []any:
		for _, e := range v {
			in.take(place, e)
		}
	case map[string]any:
		for name, e := range v {
			if _, text := e.(string); !text || name == "description" || name == "text" {
				in.take(place, e)
			}
		}
	}
}

// request reads what a request tells a model, from the places where adapters find
// what steers.
func (in *instructed) request(body []byte) {
	var b struct {
		System       any `json:"system"`
		Tools        any `json:"client_tools"`
		Skills       any `json:"client_skills"`
		Instructions any `json:"custom_instructions"`
		Messages     []struct{ Content any }
	}
	if json.Unmarshal(body, &b) != nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.take("agent.system", b.System)
	in.take("run.client_tools", b.Tools)
	in.take("run.client_skills", b.Skills)
	in.take("custom_instructions", b.Instructions)
	for _, m := range b.Messages {
		parts, _ := m.Content.([]any)
		for _, part := range parts {
			if text, _ := part.(map[string]any)["text"].(string); strings.HasPrefix(text, "<system-reminder>") {
				in.take("run.messages", text)
			}
		}
	}
}

// listening forwards to a server, or answers itself where there is none, and keeps
// what the client tells a model.
func (in *instructed) listening(t *testing.T, to string) string {
	t.Helper()
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ok","results":[{"id":"1","memory":"I like oolong tea of openclaw"}]}`)
	})
	if to != "" {
		u := must.Get(url.Parse(to))(t)
		next = httputil.NewSingleHostReverseProxy(u)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in.request(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Proves EDGE-18: the texts with which the installed versions of clients instruct
// a model are shipped approved. Each client runs twice, in two places; what differs
// is composed at run time and cannot be approved by its hash. The next version is
// one command: go test -tags e2e -run ClientsTexts ./e2e -update-approved.
func TestClientsTextsAreApproved(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	list := map[string]bool{}
	for _, c := range lettaCodes(t) {
		var runs [2]instructed
		for i := range runs {
			runs[i].texts = map[string]string{}
			base := runs[i].listening(t, real)
			for _, option := range c.presets {
				home := t.TempDir()
				result, _, all := c.prompt(t, base, home, "SAY hello", append(strings.Fields(option), "--new-agent", "-m", codeModel)...)
				expect.That(t, result == "hello", "%s %s %s: %s", c.name, c.version, option, tail(all, 1500))
			}
		}
		approve(t, list, c.name+" "+c.version, &runs)
	}
	var runs [2]instructed
	for i := range runs {
		runs[i].texts = map[string]string{}
		client{script: "openclaw.mjs"}.says(t, runs[i].listening(t, ""))
	}
	approve(t, list, "@mem0/openclaw-mem0 1.0.16", &runs)
	text := "# SHA-256, client, version and place of texts that may instruct an agent. Written by\n" +
		"# go test -tags e2e -run ClientsTexts ./e2e -update-approved\n" + strings.Join(slices.Sorted(maps.Keys(list)), "\n") + "\n"
	if *updateApproved {
		writeFile(t, approvedTexts, []byte(text))
	}
	b := must.Get(os.ReadFile(approvedTexts))(t)
	expect.That(t, string(b) == text, "the installed clients tell a model other texts than %s lists: look at them, and write the list with -update-approved", approvedTexts)
}

// approve lists what both runs of a client say alike.
func approve(t *testing.T, list map[string]bool, client string, runs *[2]instructed) {
	t.Helper()
	n := 0
	for text, place := range runs[0].texts {
		if runs[1].texts[text] == "" {
			t.Logf("%s composes at run time: %s %.90q", client, place, text)
			continue
		}
		list[memproxy.TextSHA256(text)+" "+client+" "+place] = true
		n++
	}
	expect.That(t, n != 0, "%s tells a model nothing", client)
}
