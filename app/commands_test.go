package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// writeFile replaces a file atomically, because a watcher could read a partial file,
// which may be valid by itself.
func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	must.Do(t, durable.Write(path, []byte(text)))
	return path
}

// Proves CARD-3: check reports the file and line of errors in configuration and
// policies, and changes nothing.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := strings.NewReplacer("DIR", dir, "UPSTREAM", "http://127.0.0.1:9", "KEY", sha("k")).Replace(plain)
	good := writeFile(t, filepath.Join(dir, "good.yaml"), conf)
	says(t, 0, "is valid", "check", "--config", good)
	expect.Error(t, expect.Err(os.Stat(filepath.Join(dir, "state"))), "check made state")
	bad := writeFile(t, filepath.Join(dir, "bad.yaml"), strings.Replace(conf, "upstream:", "upstraem:", 1))
	code, _, errs := invoke(t, "check", "--config", bad)
	expect.Equal(t, code == 1 && strings.Contains(errs, "bad.yaml:5") && strings.Contains(errs, "upstraem"), true, "exit", code, errs, "want file and line")
	bundle := filepath.Join(dir, "policies")
	writeBundle(t, bundle, broken)
	worse := writeFile(t, filepath.Join(dir, "worse.yaml"), conf+"policy: {dir: \""+bundle+"\"}\n")
	says(t, 1, "own.cedar:2", "check", "--config", worse)
}

// Proves CARD-10, MFW-9: secrets are redacted in the printed configuration.
func TestCheckPrintsNoSecret(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LENT", "canary-upstream")
	conf := strings.NewReplacer("DIR", dir, `upstream: "UPSTREAM"`, `upstream: "http://127.0.0.1:9", credential: "${LENT}"`, "KEY", sha("k")).Replace(plain) +
		"budgets: {redis: {url: \"redis://user:canary-redis@127.0.0.1:6379/0\"}}\n"
	path := writeFile(t, filepath.Join(dir, "memproxy.yaml"), conf)
	for _, words := range [][]string{{"check", "--print"}, {"config", "show"}} {
		code, out, errs := invoke(t, append(words, "--config", path)...)
		expect.Equal(t, code == 0 && !strings.Contains(out+errs, "canary") && strings.Contains(out, "agent:dev"), true, words, "exit", code, out, errs)
	}
}

// Proves TRL-3, CARD-5: explain reports the result of every step and sends nothing.
func TestExplain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := strings.NewReplacer("DIR", dir, "UPSTREAM", "http://127.0.0.1:9", "KEY", sha("k")).Replace(plain)
	path := writeFile(t, filepath.Join(dir, "memproxy.yaml"), conf)
	body := writeFile(t, filepath.Join(dir, "body.json"), `{"user_id":"bob","agent_id":"dev","infer":false,"metadata":{"confidence":1,"field":"authority"},"messages":[{"role":"user","content":"x"}]}`)
	args := []string{"explain", "--config", path, "--method", "POST", "--path", "/memories", "--body", body, "--as", "agent:dev"}
	code, out, errs := invoke(t, append(args, "--json")...)
	var ex struct {
		Verdict string
		Status  int
		Steps   []struct {
			Step, Verdict string
			Reasons       []struct{ Code, Rule string }
		}
	}
	must.Do(t, json.Unmarshal([]byte(out), &ex), out, errs)
	must.Equal(t, code, cli.Denied, out, errs)
	found := map[string]string{}
	for _, s := range ex.Steps {
		for _, reason := range s.Reasons {
			found[reason.Code] = s.Step
		}
	}
	for code, step := range map[string]string{"identity.user": "gate.bound", "trust.clamped": "gate.clamp", "field.forbidden": "gate.rule"} {
		expect.Equal(t, found[code], step, code, found)
	}
	expect.Equal(t, ex.Verdict, "deny")
	expect.Equal(t, ex.Status, 403)
	says(t, cli.Denied, "fields.cedar:", args...)
	change := writeFile(t, filepath.Join(dir, "change.json"), `{"text":"x"}`) // the target counts as the caller's own
	code, out, errs = invoke(t, "explain", "--config", path, "--method", "PUT", "--path", "/memories/m1", "--body", change, "--as", "agent:dev")
	expect.Equal(t, code, 0, errs)
	expect.Text(t, out).Lacks("owner.").Has("as if they were the caller's own")
	says(t, cli.Usage, "agent:dev", "explain", "--config", path, "--as", "agent:nobody")
	expect.Error(t, expect.Err(os.Stat(filepath.Join(dir, "state"))), "explain made state")
}

// Proves CARD-3: explain refuses what would be held where there are not enough reviewers
// to settle it, as the sidecar does.
func TestExplainKnowsTheReviewers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policies := policyDir(t, `@id("own.hold") @verdict("hold") forbid (principal, action, resource);`)
	body := writeFile(t, filepath.Join(dir, "body.json"), `{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"x"}]}`)
	two := func(tenant string) string {
		return fmt.Sprintf("review: {need: 2, reviewers: [{id: \"agent:dev\", sha256: %q, tenants: [acme]}, {id: rae, sha256: %q, tenants: [%s]}]}",
			sha("an author's token, long enough"), sha("a reviewer's token, long enough"), tenant)
	}
	for review, want := range map[string]int{
		"":            0, // the operator of this machine
		two("acme"):   0, // the operator and another than the author
		two("globex"): cli.Denied,
	} {
		conf := strings.NewReplacer("DIR", dir, "UPSTREAM", "http://127.0.0.1:9", "KEY", sha("k")).Replace(plain) + "\npolicy: {dir: \"" + policies + "\"}\n" + review + "\n"
		path := writeFile(t, filepath.Join(dir, "memproxy.yaml"), conf)
		code, out, errs := invoke(t, "explain", "--config", path, "--method", "POST", "--path", "/memories", "--body", body, "--as", "agent:dev")
		expect.Equal(t, code == want && strings.Contains(out, "hold.reviewer") == (want != 0), true, review, "exit", code, out, errs)
	}
}

// Proves CARD-7: keys are created once, readable by their owner only, and never
// overwritten. The public key is printed as verifiers read it.
func TestKeygen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	code, out, errs := invoke(t, "keygen", "--out", dir)
	must.Equal(t, code, 0, errs)
	_, public, _ := strings.Cut(out, "public key of the log  ")
	public, _, _ = strings.Cut(public, " ")
	must.Get(verify.ParseKey(public))(t)
	list := must.Get(os.ReadDir(dir))(t)
	must.Equal(t, len(list) >= 2, true, list)
	for _, e := range list {
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 && !strings.HasSuffix(e.Name(), ".vkey") && !strings.HasSuffix(e.Name(), ".pub") {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	says(t, 1, "never overwritten", "keygen", "--out", dir)
}

// Proves CARD-1, CARD-4, CARD-5, CARD-7, TRL-1, TRL-3, TRL-6, EDGE-3: every row of the
// demo holds: each threat works directly and fails through memproxy. README.md shows
// the demo's rows.
func TestDemo(t *testing.T) {
	odd := filepath.Join(t.TempDir(), `a "b": c #d`)
	must.Do(t, os.Mkdir(odd, 0o700))
	t.Setenv("TMPDIR", odd)
	code, out, errs := invoke(t, "demo", "--json")
	must.Equal(t, code, 0, errs, out)
	var demo struct {
		Rows []struct {
			Threat   string `json:"threat"`
			Direct   struct{ Said string }
			Proxied  struct{ Said string }
			AsClaims bool `json:"as_claimed"`
		} `json:"rows"`
	}
	must.Do(t, json.Unmarshal([]byte(out), &demo))
	expect.Equal(t, len(demo.Rows) >= 12, true, "no threat is missing of", len(demo.Rows))
	said := map[string][2]string{}
	for _, r := range demo.Rows {
		expect.Equal(t, r.Threat != "" && r.AsClaims, true, r)
		said[r.Threat] = [2]string{r.Direct.Said, r.Proxied.Said}
	}
	readme := must.Get(os.ReadFile("../README.md"))(t)
	_, shown, _ := strings.Cut(string(readme), "memproxy demo\n")
	shown, _, _ = strings.Cut(shown, "  …")
	lines := strings.Split(strings.TrimSpace(shown), "\n")
	for _, line := range lines[min(2, len(lines)):] { // below the header
		threat, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		row := said[threat]
		expect.Equal(t, row[0] != "" && strings.Contains(line, row[0]+"  ") && strings.HasSuffix(line, row[1]), true, "README.md shows", line, "the demo prints", row)
	}
	expect.Equal(t, len(lines) >= 6, true, "README.md shows the demo's lines", lines)
}

// initialised runs "init" with answers and returns the file it wrote.
func initialised(t *testing.T, answers string, env map[string]string, args ...string) (file, out string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memproxy.yaml")
	var stdout, stderr lockedBuffer
	a := &invocation{
		Args: append([]string{"init", "--out", path}, args...), Stdin: strings.NewReader(answers), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) string { return env[name] }, Version: "test",
	}
	must.Equal(t, a.run(t.Context()), 0, stdout.String(), stderr.String())
	text := must.Get(os.ReadFile(path))(t)
	expect.Equal(t, must.Get(os.Stat(path))(t).Mode().Perm(), 0o600)
	// Reviewers' commands find the default socket.
	expect.Text(t, string(text), "the state is not where", review.DefaultSocket, "is looked for").Has("\nstate: ./" + filepath.Dir(review.DefaultSocket) + " ")
	said, errs := &lockedBuffer{}, &lockedBuffer{}
	a.Args, a.Stdout, a.Stderr = []string{"check", "--config", path}, said, errs
	code := a.run(t.Context())
	expect.Equal(t, code == 0 && !strings.Contains(errs.String(), "warning") && strings.Contains(said.String(), "profile production"), true, "check: exit", code, said.String(), errs.String())
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
		{"a key from a file with line ends", "", []string{"--mem0"}, map[string]string{"MEM0_API_KEY": " m0-secret\r\n"}, []string{sha("m0-secret")}},
		{"one of each", "http://127.0.0.1:8000", []string{"--backend", "mem0-server"}, key, []string{"http://127.0.0.1:8000", "\n    credential_as: x-api-key\n"}},
	} {
		file, out := initialised(t, tc.answers, tc.env, tc.args...)
		expect.Text(t, file, tc.name).Has(tc.want...)
		expect.Text(t, file+out, tc.name, "the key is in what was written", file, out).Lacks("-secret")
		expect.Text(t, out, tc.name, "the next command is not said").Has("memproxy serve --config")
	}
	file, out := initialised(t, "letta\n\n", nil)
	_, made, _ := strings.Cut(out, "The key, which is shown only once: ")
	made, _, _ = strings.Cut(made, "\n")
	expect.Equal(t, len(made) >= 20 && strings.Contains(file, sha(made)) && !strings.Contains(file, made) && strings.Contains(file, "\n    # credential: "), true, "the key that was made", made, file)
	_, again := initialised(t, "letta\n\n", nil)
	expect.Text(t, again, "the same key twice").Lacks(made)
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	taken := writeFile(t, filepath.Join(t.TempDir(), "memproxy.yaml"), "mine")
	for _, tc := range []struct {
		code       int
		want, args string
	}{
		{1, "exists already", "--out " + taken + " --backend mem0 --upstream http://h"},
		{2, "want one of", "--backend redis --upstream http://h"},
		{2, "want http://", "--backend mem0 --upstream ftp://h"},
		{2, "want http://", "--backend mem0 --upstream nowhere"},
		{2, "want http://", `--backend mem0 --upstream http://h/"x`},
		{1, "set --backend", ""},
		{2, "want one of", "--backend mem0-cloud --upstream http://h"},
	} {
		args := strings.Fields(tc.args)
		if !strings.Contains(tc.args, "--out") {
			args = append(args, "--out", filepath.Join(t.TempDir(), "m.yaml"))
		}
		says(t, tc.code, tc.want, append([]string{"init"}, args...)...)
	}
	says(t, 2, "", "init", "--mem0", "--letta")
	expect.Equal(t, string(must.Get(os.ReadFile(taken))(t)), "mine")
	says(t, 0, "", "init", "--out", taken, "--letta", "--force")
	expect.Text(t, string(must.Get(os.ReadFile(taken))(t)), "by force").Has(`upstream: "http://127.0.0.1:8283"`)
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
	at := "/memories/" + r.do("POST", "/memories", `{"messages":[{"role":"user","content":"I like tea."}],"user_id":"ann","agent_id":"shop","infer":false}`).id(t)
	for _, step := range [][3]string{
		{"POST", "/search", `{"query":"tea","user_id":"ann"}`}, {"GET", "/memories?user_id=ann", ""}, {"GET", at, ""},
		{"PUT", at, `{"text":"Likes green tea."}`}, {"GET", at + "/history", ""}, {"DELETE", at, ""},
	} {
		r.do(step[0], step[1], step[2]).want(t, http.StatusOK, step[0], step[1])
	}

	l := startLettaWith(t, someAgent, rigged(t, "letta", "LETTA"), func(h http.Handler) http.Handler { return h })
	auth := []string{"Authorization", "Bearer " + devToken}
	at = "/v1/agents/" + l.do("POST", "/v1/agents/", someAgent, auth...).id(t)
	for _, step := range [][3]string{
		{"GET", at, ""}, {"GET", at + "/core-memory/blocks/human", ""},
		{"POST", at + "/messages", fmt.Sprintf(`{"input":%q}`, "CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY hello")},
		{"GET", at + "/messages", ""},
	} {
		l.do(step[0], step[1], step[2], auth...).want(t, http.StatusOK, step[0], step[1])
	}
}

// The webhook reports what prevents its start, and exits.
func TestInjectRefusesToStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := must.Get(os.ReadFile("../inject/testdata/config.yaml"))(t)
	write := func(name, text string) string { return writeFile(t, filepath.Join(dir, name), text) }
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "none.yaml"), "no such file"},
		{write("wrong.yaml", strings.Replace(string(good), "pods: all", "pods: none", 1)), "want all or annotated"},
		{write("nocert.yaml", strings.ReplaceAll(string(good), "/etc/memproxy/tls", dir)), "tls.crt: no such file"},
	} {
		says(t, cli.Failed, c.want, "inject", "--config", c.path)
	}
}
