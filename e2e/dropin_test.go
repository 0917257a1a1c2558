//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// The configuration of the drop-in runs: one caller that may do everything
// the SDKs' methods do, so that what differs is what memproxy breaks.
func dropin(eng engine, backend, more string) string {
	const admin = ", trust: system, roles: [memproxy-admin]"
	return sidecarConf("development", "mem0", eng.base, backend, "identity:\n  keys:\n"+
		keyed("m0-e2e", "service:app", admin)+keyed("m0sk_e2e", "service:app", admin)+
		keyed("e2e-admin-key", "human:admin", ", trust: human, roles: [memproxy-admin]")+
		"budgets: {default: {writes_per_hour: 100000, writes_total: 1000000}}\n"+more)
}

// ownAnswer are the steps that memproxy answers itself, in words of its own
// and with the same kind of status: bodies that are refused before the backend
// could refuse them.
var ownAnswer = map[string]bool{
	"add_malformed": true, // 422 in both, the detail is memproxy's
}

// deleted are the steps that ask for what was deleted: it is not shown, where
// the backend goes on showing it.
var deleted = map[string]bool{"history_of_deleted": true}

func nothingShown(line string) bool {
	line = strings.ReplaceAll(line, " ", "")
	return strings.Contains(line, `"ok":true,"result":[]}`) || strings.Contains(line, `"ok":true,"result":{"body":[],"status":200}}`)
}

// Proves CARD-1, CARD-2: every method of the unmodified SDKs answers through
// the proxy what it answers directly.
func TestUnmodifiedClients(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), dropin(eng, "", ""))
	for i, scenario := range []string{"v3", "v2", "py", "py1", "selfhosted"} {
		t.Run(scenario, func(t *testing.T) {
			args := func(base, suffix string) []string {
				a := []string{scenario, "--base", base, "--key", "m0-e2e", "--suffix", suffix}
				if scenario == "selfhosted" {
					a[4] = "m0sk_e2e"
					return a
				}
				return append(a, "--with-admin")
			}
			script := filepath.Join("mem0", "sdk", "run.sh")
			env := []string{"STRIP_MEMPROXY=1", "MEM0_TELEMETRY=false"}
			want, code := run(t, env, script, args(eng.base, fmt.Sprintf("dir%04d", i))...)
			must.Equal(t, code, 0, "the scenario fails directly", tail(want, 2000))
			got, code := run(t, env, script, args(car.base, fmt.Sprintf("pxy%04d", i))...)
			expect.Equal(t, code, 0, "exit code")
			compare(t, lines(want), lines(got))
		})
	}
}

func compare(t *testing.T, want, got []string) {
	t.Helper()
	must.That(t, len(want) >= 30, "only %d steps directly: the scenario does not do its work", len(want))
	ids := renaming{}
	for i := range want {
		if i >= len(got) {
			t.Errorf("the proxied run ends after %d of %d steps", len(got), len(want))
			return
		}
		var step struct {
			Step string `json:"step"`
		}
		_ = json.Unmarshal([]byte(want[i]), &step)
		if ids.equal(want[i], got[i]) || ownAnswer[step.Step] && sameStatus(want[i], got[i]) || deleted[step.Step] && nothingShown(got[i]) {
			continue
		}
		t.Errorf("step %s\n direct  %s\n proxied %s", step.Step, tail(want[i], 1500), tail(got[i], 1500))
	}
}

// renaming maps the ids of the proxied run to those of the direct one. The
// scenarios number ids in the order in which they see them, so an answer of
// memproxy's own, with its decision id, shifts the numbers that follow.
type renaming map[string]string

var numbered = regexp.MustCompile(`<id-\d+>`)

func (r renaming) equal(want, got string) bool {
	w, g := numbered.FindAllString(want, -1), numbered.FindAllString(got, -1)
	if len(w) != len(g) {
		return false
	}
	for i := range g {
		if as, known := r[g[i]]; known && as != w[i] {
			return false
		}
		r[g[i]] = w[i]
	}
	return want == numbered.ReplaceAllStringFunc(got, func(id string) string { return r[id] })
}

func sameStatus(a, b string) bool {
	status := func(line string) int {
		var s struct {
			Result struct {
				Status int `json:"status"`
			} `json:"result"`
		}
		_ = json.Unmarshal([]byte(line), &s)
		return s.Result.Status
	}
	return status(a) == status(b) && status(a) >= 400
}

// Proves CARD-1, CARD-3 to CARD-7, TRL-3: one add and one search of the npm client
// through serve, with Cedar, Redis, clamp, span and audit record in the path.
func TestMilestone(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	redis := startRedis(t)
	otlp := startCollector(t)
	car := serve(t, t.TempDir(), shared(eng.base, "m0-e2e", 1000, `url: "`+redis.url+`", timeout: 10s`)+`telemetry: {otlp: "`+otlp.url+`"}`)
	out, code := run(t, []string{"MEM0_TELEMETRY=false"}, "node", "milestone.mjs", car.base, "m0-e2e")
	must.Equal(t, code, 0)
	expect.Text(t, out).Has("oat milk")
	var found struct {
		Metadata map[string]any `json:"metadata"`
	}
	must.Do(t, json.Unmarshal([]byte(lines(out)[len(lines(out))-1]), &found))
	c := found.Metadata["confidence"]
	expect.That(t, c == 0.7, "confidence %v came back, want 0.7: an authenticated agent's ceiling", c)
	id, _ := found.Metadata["memproxy_id"].(string)
	must.That(t, id != "" && found.Metadata["memproxy_actor"] == "agent:dev", "metadata %v: want the provenance stamp", found.Metadata)
	car.stop()
	expect.Text(t, car.audit(t, "--decision", id), id).Has("trust.clamped")
	car.verifyAudit(t)
	otlp.wantDecision(t, id)
	n := redis.keys(t)
	expect.That(t, n != 0, "nothing was charged in Redis")
}
