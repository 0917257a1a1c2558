package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/internal/must"
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
	if code, out, errs := invoke(t, "check", "--config", good); code != 0 || !strings.Contains(out, "is valid") {
		t.Errorf("exit %d %s %s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); err == nil {
		t.Error("check made state")
	}
	bad := writeFile(t, filepath.Join(dir, "bad.yaml"), strings.Replace(conf, "upstream:", "upstraem:", 1))
	if code, _, errs := invoke(t, "check", "--config", bad); code != 1 || !strings.Contains(errs, "bad.yaml:5") || !strings.Contains(errs, "upstraem") {
		t.Errorf("exit %d, %s: want file and line", code, errs)
	}
	bundle := filepath.Join(dir, "policies")
	writeBundle(t, bundle, broken)
	worse := writeFile(t, filepath.Join(dir, "worse.yaml"), conf+"policy: {dir: \""+bundle+"\"}\n")
	if code, _, errs := invoke(t, "check", "--config", worse); code != 1 || !strings.Contains(errs, "own.cedar:2") {
		t.Errorf("exit %d, %s: want the policy's file and line", code, errs)
	}
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
		if code != 0 || strings.Contains(out+errs, "canary") || !strings.Contains(out, "agent:dev") {
			t.Errorf("%q: exit %d\n%s%s", words, code, out, errs)
		}
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
	if err := json.Unmarshal([]byte(out), &ex); err != nil || code != cli.Denied {
		t.Fatalf("exit %d, %v: %s %s", code, err, out, errs)
	}
	found := map[string]string{}
	for _, s := range ex.Steps {
		for _, reason := range s.Reasons {
			found[reason.Code] = s.Step
		}
	}
	for code, step := range map[string]string{"identity.user": "gate.bound", "trust.clamped": "gate.clamp", "field.forbidden": "gate.rule"} {
		if found[code] != step {
			t.Errorf("%s by %q, want %s; all: %v", code, found[code], step, found)
		}
	}
	if ex.Verdict != "deny" || ex.Status != 403 {
		t.Errorf("%s %d", ex.Verdict, ex.Status)
	}
	if code, out, _ := invoke(t, args...); code != cli.Denied || !strings.Contains(out, "fields.cedar:") {
		t.Errorf("exit %d: want the rule's file and line for people:\n%s", code, out)
	}
	change := writeFile(t, filepath.Join(dir, "change.json"), `{"text":"x"}`) // the target counts as the caller's own
	if code, out, errs := invoke(t, "explain", "--config", path, "--method", "PUT", "--path", "/memories/m1", "--body", change, "--as", "agent:dev"); code != 0 || strings.Contains(out, "owner.") {
		t.Errorf("exit %d: %s %s", code, out, errs)
	}
	if code, _, errs := invoke(t, "explain", "--config", path, "--as", "agent:nobody"); code != 1 || !strings.Contains(errs, "agent:dev") {
		t.Errorf("exit %d, %s: want the principals that there are", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); err == nil {
		t.Error("explain made state")
	}
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
		if code != want || strings.Contains(out, "hold.reviewer") != (want != 0) {
			t.Errorf("%q: exit %d %s %s", review, code, out, errs)
		}
	}
}

// Proves CARD-7: keys are created once, readable by their owner only, and never
// overwritten.
func TestKeygen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	code, out, errs := invoke(t, "keygen", "--out", dir)
	if code != 0 || !strings.Contains(out, "origin memproxy/") {
		t.Fatalf("exit %d %s %s", code, out, errs)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) < 2 {
		t.Fatalf("%v %v", list, err)
	}
	for _, e := range list {
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 && !strings.HasSuffix(e.Name(), ".vkey") && !strings.HasSuffix(e.Name(), ".pub") {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if code, _, errs := invoke(t, "keygen", "--out", dir); code != 1 || !strings.Contains(errs, "never overwritten") {
		t.Errorf("again: exit %d %s", code, errs)
	}
}

// Proves CARD-1, CARD-4, CARD-5, CARD-7, TRL-1, TRL-3, TRL-6, EDGE-3: every row of the
// demo holds: each threat works directly and fails through memproxy. README.md shows
// the demo's rows.
func TestDemo(t *testing.T) {
	t.Parallel()
	code, out, errs := invoke(t, "demo", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s\n%s", code, errs, out)
	}
	var demo struct {
		Rows []struct {
			Threat   string `json:"threat"`
			Direct   struct{ Said string }
			Proxied  struct{ Said string }
			AsClaims bool `json:"as_claimed"`
		} `json:"rows"`
	}
	must.Do(t, json.Unmarshal([]byte(out), &demo))
	if len(demo.Rows) < 12 {
		t.Errorf("%d rows: a threat is missing", len(demo.Rows))
	}
	said := map[string][2]string{}
	for _, r := range demo.Rows {
		if r.Threat == "" || !r.AsClaims {
			t.Errorf("%+v", r)
		}
		said[r.Threat] = [2]string{r.Direct.Said, r.Proxied.Said}
	}
	readme := must.Get(os.ReadFile("../README.md"))(t)
	_, shown, _ := strings.Cut(string(readme), "memproxy demo\n")
	shown, _, _ = strings.Cut(shown, "  …")
	lines := strings.Split(strings.TrimSpace(shown), "\n")
	for _, line := range lines[min(2, len(lines)):] { // below the header
		threat, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if row := said[threat]; row[0] == "" || !strings.Contains(line, row[0]+"  ") || !strings.HasSuffix(line, row[1]) {
			t.Errorf("README.md shows %q; the demo prints %q", line, row)
		}
	}
	if len(lines) < 6 {
		t.Errorf("README.md shows %d lines of the demo", len(lines))
	}
}
