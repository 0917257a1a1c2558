//go:build e2e

package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// layersStopNothing holds the decisions of a sidecar with production's defaults, of which
// there must be some, to none that a rule stopped for its layer, its key or its origin.
func (s *sidecar) layersStopNothing(t *testing.T, some int) {
	t.Helper()
	decisions := lines(s.audit(t, "--type", "decision"))
	for _, line := range decisions {
		if (strings.Contains(line, `"verdict":"deny"`) || strings.Contains(line, `"verdict":"hold"`)) && (strings.Contains(line, `"layer.`) || strings.Contains(line, `"field.trait"`)) {
			t.Errorf("stopped: %s", tail(line, 1500))
		}
	}
	expect.That(t, len(decisions) >= some, "only %d decisions", len(decisions))
}

// refusal is how a rule of the layers words one; a mark in a stamp is none.
var refusal = regexp.MustCompile(`"code": ?"(layer\.|field\.trait)`)

// Proves GOV-1, GOV-2, GOV-3: with the defaults of production, nothing that the
// unmodified SDKs do, self-edits of Letta's agents included, is stopped for its layer,
// its key or its origin.
func TestLayersLeaveClientsAlone(t *testing.T) {
	t.Parallel()
	eng, real := startEngine(t), lettaServer(t)
	// Letta's scenario runs agents of older loops too, which production refuses.
	production := strings.NewReplacer("profile: development", "profile: production", "kind: letta,", "kind: letta, ungated: compensate,")
	mem0 := serve(t, t.TempDir(), production.Replace(dropin(eng, "", "")))
	letta := serve(t, t.TempDir(), production.Replace(lettaDropin(real)))
	for scenario, c := range map[string]struct {
		car  *sidecar
		args string
	}{
		"v3": {mem0, "--key m0-e2e --with-admin"}, "py": {mem0, "--key m0-e2e --with-admin"}, "selfhosted": {mem0, "--key m0sk_e2e"}, "letta": {letta, ""},
	} {
		script, name := filepath.Join("mem0", "sdk", "run.sh"), scenario
		if c.car == letta {
			script, name = filepath.Join("letta", "sdk", "run.sh"), "py"
		}
		out, _ := run(t, []string{"MEM0_TELEMETRY=false"}, script, append([]string{name, "--base", c.car.base, "--suffix", "lay" + scenario}, strings.Fields(c.args)...)...)
		n := len(lines(out))
		expect.That(t, n >= 30 && !refusal.MatchString(out), "%s: %d steps, %s", scenario, n, tail(out, 1500))
	}
	mem0.layersStopNothing(t, 60)
	letta.layersStopNothing(t, 50)
}

// Proves GOV-3: what the real engine's model makes of an assistant's words is
// taken back, and what the user said stays; where it is only marked, both stay
// and the record tells them apart.
func TestRealEngineInference(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	for treatment, gone := range map[string]bool{"refuse": true, "mark": false} {
		car := serve(t, t.TempDir(), shared(eng.base, "m0sk_e2e", 1000, "")+"memories: {inferred: "+treatment+"}\n")
		thread := "run-" + treatment
		said := `{"agent_id":"dev","run_id":"` + thread + `","messages":[{"role":"user","content":"I like green tea."},{"role":"assistant","content":"Answers should stay brief."}]}`
		a := call(t, http.MethodPost, car.base+"/memories", "m0sk_e2e", said)
		expect.That(t, a.status == 200 && strings.Contains(a.body, "green tea") && strings.Contains(a.body, "brief") != gone, "%s: %d %s", treatment, a.status, a.body)
		list := call(t, http.MethodGet, eng.base+"/memories?agent_id=dev&run_id="+thread, "m0sk_e2e", "")
		expect.That(t, strings.Contains(list.body, "green tea") && strings.Contains(list.body, "brief") != gone, "%s: the engine holds %s", treatment, list.body)
		alone := call(t, http.MethodPost, car.base+"/memories", "m0sk_e2e", `{"agent_id":"dev","run_id":"`+thread+`","messages":[{"role":"assistant","content":"Answers should stay brief."}]}`)
		alone.want(t, map[bool]int{true: 403, false: 200}[gone], treatment, "an assistant alone")
		out := car.audit(t, "--decision", decisionID(a))
		expect.That(t, strings.Contains(out, "layer.inferred") && strings.Contains(out, "undone") == gone && !strings.Contains(out, "brief"), "%s: the record says %s", treatment, out)
	}
}

// Proves EDGE-2: what the real engine's model makes of a harmless write is
// screened: an instruction that was in none of the words is deleted again, not
// shown, and named in the record with both hashes; the rest stays.
func TestExtractionsAreRetracted(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), shared(eng.base, "m0sk_e2e", 1000, ""))
	const said = `{"user_id":"ann","agent_id":"dev","messages":[{"role":"user","content":"I like green tea."},{"role":"user","content":"Note number seven."}]}`
	call(t, http.MethodPost, eng.base+"/memories", "m0sk_e2e", strings.ReplaceAll(said, "ann", "direct")).about("without memproxy").has(t, "invoices")
	a := call(t, http.MethodPost, car.base+"/memories", "m0sk_e2e", said).want(t, 200).lacks(t, "invoices").has(t, "green tea")
	call(t, http.MethodGet, eng.base+"/memories?user_id=ann", "m0sk_e2e", "").about("the engine holds").lacks(t, "invoices").has(t, "green tea")
	expect.Text(t, car.audit(t, "--decision", decisionID(a))).Has("screen.extracted", "undone").Lacks("invoices")
}
