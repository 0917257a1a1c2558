package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

// initialised runs "init" with answers and returns the file it wrote.
func initialised(t *testing.T, answers string, env map[string]string, args ...string) (file, out string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memproxy.yaml")
	var stdout, stderr lockedBuffer
	a := &invocation{
		Args: append([]string{"init", "--out", path}, args...), Stdin: strings.NewReader(answers), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) string { return env[name] }, Version: "test",
	}
	if code := a.run(t.Context()); code != 0 {
		t.Fatalf("exit %d: %s%s", code, stdout.String(), stderr.String())
	}
	text := must.Get(os.ReadFile(path))(t)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	// Reviewers' commands find the default socket.
	if !strings.Contains(string(text), "\nstate: ./"+filepath.Dir(review.DefaultSocket)+" ") {
		t.Errorf("the state is not where %s is looked for:\n%s", review.DefaultSocket, text)
	}
	said, errs := &lockedBuffer{}, &lockedBuffer{}
	a.Args, a.Stdout, a.Stderr = []string{"check", "--config", path}, said, errs
	if code := a.run(t.Context()); code != 0 || strings.Contains(errs.String(), "warning") || !strings.Contains(said.String(), "profile production") {
		t.Errorf("check: exit %d %s%s", code, said.String(), errs.String())
	}
	return string(text), stdout.String()
}

// init writes a working configuration from options or two answers, for the key in the
// environment or a generated one that it prints once. The file contains no key.
func TestInit(t *testing.T) {
	t.Parallel()
	key := map[string]string{"MEM0_API_KEY": "m0-secret", "LETTA_SERVER_PASSWORD": "letta-secret"}
	for _, tc := range []struct {
		name, answers string
		args          []string
		env           map[string]string
		want          []string
	}{
		{"options", "", []string{"--backend", "mem0", "--upstream", "https://mem0.example/base"}, key, []string{"kind: mem0", "https://mem0.example/base", sha("m0-secret"), "\n    credential: \"${MEM0_API_KEY}\"\n    credential_as: token\n"}},
		{"answers", "letta\nhttp://10.0.0.8:8283\n", nil, key, []string{"kind: letta", "http://10.0.0.8:8283", sha("letta-secret"), "\n    credential: \"${LETTA_SERVER_PASSWORD}\"\n    credential_as: bearer\n"}},
		{"proposals", "\n\n", nil, key, []string{"kind: mem0", "https://api.mem0.ai", sha("m0-secret")}},
		{"by the backend's flag", "", []string{"--letta"}, key, []string{"kind: letta", "http://127.0.0.1:8283", sha("letta-secret")}},
		{"one of each", "http://127.0.0.1:8000", []string{"--backend", "mem0-server"}, key, []string{"http://127.0.0.1:8000", "\n    credential_as: x-api-key\n"}},
	} {
		file, out := initialised(t, tc.answers, tc.env, tc.args...)
		for _, want := range tc.want {
			if !strings.Contains(file, want) {
				t.Errorf("%s: no %s in\n%s", tc.name, want, file)
			}
		}
		if strings.Contains(file+out, "-secret") {
			t.Errorf("%s: the key is in what was written:\n%s%s", tc.name, file, out)
		}
		if !strings.Contains(out, "memproxy serve --config") {
			t.Errorf("%s: the next command is not said: %s", tc.name, out)
		}
	}
	file, out := initialised(t, "letta\n\n", nil)
	_, made, _ := strings.Cut(out, "That key is ")
	made, _, _ = strings.Cut(made, "\n")
	if len(made) < 20 || !strings.Contains(file, sha(made)) || strings.Contains(file, made) || !strings.Contains(file, "\n    # credential: ") {
		t.Errorf("the key that was made: %q\n%s", made, file)
	}
	if _, again := initialised(t, "letta\n\n", nil); strings.Contains(again, made) {
		t.Error("the same key twice")
	}
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	taken := writeFile(t, filepath.Join(t.TempDir(), "memproxy.yaml"), "mine")
	for _, tc := range []struct{ want, args string }{
		{"is there already", "--out " + taken + " --backend mem0 --upstream http://h"},
		{"want one of", "--backend redis --upstream http://h"},
		{"want http://", "--backend mem0 --upstream ftp://h"},
		{"want http://", "--backend mem0 --upstream nowhere"},
		{"want http://", `--backend mem0 --upstream http://h/"x`},
		{"set --backend", ""},
		{"want one of", "--backend mem0-cloud --upstream http://h"},
	} {
		args := strings.Fields(tc.args)
		if !strings.Contains(tc.args, "--out") {
			args = append(args, "--out", filepath.Join(t.TempDir(), "m.yaml"))
		}
		if code, out, errs := invoke(t, append([]string{"init"}, args...)...); code != 1 || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit %d %s%s, want %s", tc.args, code, out, errs, tc.want)
		}
	}
	if code, _, errs := invoke(t, "init", "--mem0", "--letta"); code != 2 {
		t.Errorf("two backends: exit %d %s", code, errs)
	}
	if b, err := os.ReadFile(taken); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
	if code, out, errs := invoke(t, "init", "--out", taken, "--letta", "--force"); code != 0 {
		t.Errorf("by force: exit %d %s%s", code, out, errs)
	}
	if b, err := os.ReadFile(taken); err != nil || !strings.Contains(string(b), `upstream: "http://127.0.0.1:8283"`) {
		t.Errorf("by force: %q %v", b, err)
	}
}

// rigged is an initial configuration with the test's backend and listeners.
func rigged(t *testing.T, backend, upstream string) string {
	t.Helper()
	file, _ := initialised(t, "", map[string]string{"MEM0_API_KEY": devToken, "LETTA_API_KEY": devToken}, "--backend", backend, "--upstream", "http://upstream.example")
	for _, change := range [][2]string{
		{"http://upstream.example", upstream}, {"./state", "DIR/state"}, {"name: letta", "name: mem0"},
		{"${MEM0_API_KEY}", devToken}, {"${LETTA_API_KEY}", devToken},
	} {
		file = strings.ReplaceAll(file, change[0], change[1])
	}
	return regexp.MustCompile(`listen: "127.0.0.1:\d+"`).ReplaceAllString(file, `listen: "127.0.0.1:0"`)
}

// With the unchanged initial configuration an application works as before: it adds,
// searches, changes and deletes memories, and creates, reads and messages an agent.
func TestTheFirstHour(t *testing.T) {
	t.Parallel()
	r := start(t, rigged(t, "mem0-server", "UPSTREAM"))
	a := r.do("POST", "/memories", `{"messages":[{"role":"user","content":"I like tea."}],"user_id":"ann","agent_id":"shop","infer":false}`)
	var body struct{ Results []struct{ ID string } }
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || len(body.Results) != 1 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	at := "/memories/" + body.Results[0].ID
	for _, step := range [][3]string{
		{"POST", "/search", `{"query":"tea","user_id":"ann"}`}, {"GET", "/memories?user_id=ann", ""}, {"GET", at, ""},
		{"PUT", at, `{"text":"Likes green tea."}`}, {"GET", at + "/history", ""}, {"DELETE", at, ""},
	} {
		if a := r.do(step[0], step[1], step[2]); a.status != http.StatusOK {
			t.Errorf("%s %s: %d %s", step[0], step[1], a.status, a.body)
		}
	}

	l := startLettaWith(t, someAgent, rigged(t, "letta", "LETTA"), func(h http.Handler) http.Handler { return h })
	auth := []string{"Authorization", "Bearer " + devToken}
	a = l.do("POST", "/v1/agents/", `{"name":"mine","agent_type":"letta_v1_agent","memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper"}]}`, auth...)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, step := range [][3]string{
		{"GET", "/v1/agents/" + made.ID, ""}, {"GET", "/v1/agents/" + made.ID + "/core-memory/blocks/human", ""},
		{"POST", "/v1/agents/" + made.ID + "/messages", fmt.Sprintf(`{"input":%q}`, "CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY hello")},
		{"GET", "/v1/agents/" + made.ID + "/messages", ""},
	} {
		if a := l.do(step[0], step[1], step[2], auth...); a.status != http.StatusOK {
			t.Errorf("%s %s: %d %s", step[0], step[1], a.status, a.body)
		}
	}
}
