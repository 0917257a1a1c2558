//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// refusal is how a rule of the layers words one; a mark in a stamp is none.
var refusal = regexp.MustCompile(`"code": ?"(layer\.|field\.trait)`)

// stopped are the records of decisions that a rule of the layers stopped.
func stopped(t *testing.T, state string) (decisions, layered int) {
	t.Helper()
	out, code := run(t, nil, memproxyBinary(t), "audit", "query", "--dir", filepath.Join(state, "state", "audit"), "--type", "decision", "--json")
	must.Equal(t, code, 0, "audit query", tail(out, 1000))
	for line := range strings.Lines(out) {
		decisions++
		if (strings.Contains(line, `"verdict":"deny"`) || strings.Contains(line, `"verdict":"hold"`)) && (strings.Contains(line, `"layer.`) || strings.Contains(line, `"field.trait"`)) {
			layered++
			t.Errorf("stopped: %s", tail(line, 1500))
		}
	}
	return decisions, layered
}

// Proves GOV-1, GOV-2, GOV-3: with the defaults of production, nothing that the
// unmodified Mem0 SDKs do, on either dialect, is stopped for its layer, its key
// or its origin.
func TestLayersLeaveMem0ClientsAlone(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	dir := t.TempDir()
	car := serve(t, dir, strings.Replace(dropin(eng, ""), "profile: development", "profile: production", 1))
	for scenario, key := range map[string]string{"v3": "m0-e2e", "py": "m0-e2e", "selfhosted": "m0sk_e2e"} {
		args := []string{scenario, "--base", car.base, "--key", key, "--suffix", "lay" + scenario}
		if scenario != "selfhosted" {
			args = append(args, "--with-admin")
		}
		out, _ := run(t, []string{"MEM0_TELEMETRY=false"}, filepath.Join("mem0", "sdk", "run.sh"), args...)
		if n := len(lines(out)); n < 30 || refusal.MatchString(out) {
			t.Errorf("%s: %d steps, %s", scenario, n, tail(out, 1500))
		}
	}
	if n, _ := stopped(t, dir); n < 60 {
		t.Errorf("only %d decisions", n)
	}
}

// Proves GOV-2, GOV-3: likewise for the unmodified Letta SDKs, self-edits of
// their agents included.
func TestLayersLeaveLettaClientsAlone(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	dir := t.TempDir()
	// The scenario runs agents of older loops too, which production refuses.
	conf := strings.NewReplacer("profile: development", "profile: production", `upstream: "%s"`, `upstream: "%s", ungated: compensate`).Replace(lettaDropin)
	car := serve(t, dir, fmt.Sprintf(conf, real))
	out, _ := run(t, nil, filepath.Join("letta", "sdk", "run.sh"), "py", "--base", car.base, "--suffix", "layers")
	if n := len(lines(out)); n < 50 || refusal.MatchString(out) {
		t.Errorf("%d steps, %s", n, tail(out, 1500))
	}
	if n, _ := stopped(t, dir); n < 50 {
		t.Errorf("only %d decisions", n)
	}
}

// Proves GOV-3: what the real engine's model makes of an assistant's words is
// taken back, and what the user said stays; where it is only marked, both stay
// and the record tells them apart.
func TestRealEngineInference(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	for treatment, gone := range map[string]bool{"refuse": true, "mark": false} {
		dir := t.TempDir()
		conf := fmt.Sprintf(strings.Replace(sharedConfig, `, redis: {url: "%s"}`, "", 1), eng.base, sha("m0sk_e2e"), 1000)
		car := serve(t, dir, conf+"memories: {inferred: "+treatment+"}\n")
		thread := "run-" + treatment
		said := `{"agent_id":"dev","run_id":"` + thread + `","messages":[{"role":"user","content":"I like green tea."},{"role":"assistant","content":"Answers should stay brief."}]}`
		a := call(t, http.MethodPost, car.base+"/memories", "m0sk_e2e", said)
		if a.status != 200 || !strings.Contains(a.body, "green tea") || strings.Contains(a.body, "brief") == gone {
			t.Errorf("%s: %d %s", treatment, a.status, a.body)
		}
		if list := call(t, http.MethodGet, eng.base+"/memories?agent_id=dev&run_id="+thread, "m0sk_e2e", ""); !strings.Contains(list.body, "green tea") || strings.Contains(list.body, "brief") == gone {
			t.Errorf("%s: the engine holds %s", treatment, list.body)
		}
		alone := call(t, http.MethodPost, car.base+"/memories", "m0sk_e2e", `{"agent_id":"dev","run_id":"`+thread+`","messages":[{"role":"assistant","content":"Answers should stay brief."}]}`)
		alone.want(t, map[bool]int{true: 403, false: 200}[gone], treatment, "an assistant alone")
		out := audited(t, dir, decisionID(a))
		if !strings.Contains(out, "layer.inferred") || strings.Contains(out, "undone") != gone || strings.Contains(out, "brief") {
			t.Errorf("%s: the record says %s", treatment, out)
		}
	}
}

// audited is the record of a decision.
func audited(t *testing.T, dir, decision string) string {
	t.Helper()
	out, _ := run(t, nil, memproxyBinary(t), "audit", "query", "--dir", filepath.Join(dir, "state", "audit"), "--decision", decision, "--json")
	return out
}
