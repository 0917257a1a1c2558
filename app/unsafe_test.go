package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves GOV-6: settings that weaken production prevent the start unless allowed by
// name, and are then reported in the log, on /readyz, in a metric and in every record.
func TestUnsafeSettingsAreReported(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "memproxy.yaml")
	text := strings.NewReplacer("DIR", dir, "UPSTREAM", "http://127.0.0.1:1", "KEY", sha(devToken)).Replace(plain)
	weak := text + "enforce: false\nscreening: {enabled: false}\n"
	writeFile(t, path, weak)
	for _, command := range []string{"serve", "check", "extproc"} {
		for _, allowed := range []string{"", "enforce", "screening.enabled,log.level"} {
			t.Setenv(config.UnsafeEnv, allowed)
			code, _, errs := invoke(t, command, "--config", path)
			if code != cli.Failed || !strings.Contains(errs, path+":") || !strings.Contains(errs, config.UnsafeEnv+"=") {
				t.Errorf("%s with %q allowed: exit %d %s", command, allowed, code, errs)
			}
			if strings.Contains(errs, "="+allowed+"\n") {
				t.Errorf("%s: what is allowed is refused: %s", command, errs)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); err == nil {
		t.Error("a refused start made a state")
	}

	r := start(t, plain+"enforce: false\nscreening: {enabled: false}\n")
	r.do("POST", "/memories", note).want(t, 200)
	if log := r.log.String(); strings.Count(log, "UNSAFE: ") != 2 || !strings.Contains(log, `"setting":"screening.enabled"`) {
		t.Errorf("the log: %s", log)
	}
	r.get("/readyz").want(t, 200).has(t, "enforce, screening.enabled", "degraded")
	if m := r.metrics(t); !strings.Contains(m, `memproxy_unsafe_setting{setting="enforce"} 1`) || !strings.Contains(m, `memproxy_unsafe_setting{setting="screening.enabled"} 1`) {
		t.Error("the metric does not say so")
	}
	r.stop()
	records := strings.Split(strings.TrimSpace(r.audit()), "\n")
	if len(records) < 3 {
		t.Fatalf("%d records", len(records))
	}
	for _, rec := range records {
		if !strings.Contains(rec, `"unsafe":["enforce","screening.enabled"]`) {
			t.Errorf("a record does not say so: %s", rec)
		}
	}
	if code, _, errs := invoke(t, "audit", "verify", "--dir", filepath.Join(r.dir, "state", "audit")); code != 0 {
		t.Errorf("audit verify: %s", errs)
	}

	// Without them nothing is reported.
	r = start(t, plain)
	r.do("POST", "/memories", note)
	if a := r.get("/readyz"); strings.Contains(a.body, "unsafe") || strings.Contains(r.metrics(t), "memproxy_unsafe_setting{") || strings.Contains(r.log.String(), "UNSAFE") || strings.Contains(r.audit(), `"unsafe"`) {
		t.Errorf("nothing is weakened: %s", a.body)
	}
}

// Proves GOV-6: an edit of the rules that loosens a control is reported when it takes
// effect, and one of the configuration at the next start; tightening edits are not.
func TestLooseningEditsAreReported(t *testing.T) {
	t.Parallel()
	bundle := filepath.Join(t.TempDir(), "policies")
	writeBundle(t, bundle, closed)
	r := start(t, plain, "log: {level: info}", "log: {level: info}\nsessions: {max_rejections: 2}\npolicy: {dir: \""+bundle+"\", poll: 10ms}")
	loosened := func(what string) func() bool {
		return func() bool { return strings.Contains(r.audit("--type", "reload"), what) }
	}
	writeBundle(t, bundle, harmless)
	ring.Until(r.t, "the prohibition that is gone", loosened("policy own.closed (deny) is gone"))
	writeFile(t, filepath.Join(bundle, "bundle.yaml"), "shadow: [field.protected]\ndisable: [screen.hostile]\nbudgets: {default: {writes_per_hour: 50}}\n")
	ring.Until(r.t, "the rule in shadow", loosened("policy field.protected (deny) is in shadow"))
	for _, want := range []string{"policy screen.hostile (deny) is gone"} {
		if !loosened(want)() {
			t.Errorf("not named: %s", want)
		}
	}
	writeFile(t, filepath.Join(bundle, "bundle.yaml"), "budgets: {default: {writes_per_hour: 60}}\n")
	ring.Until(r.t, "the budget", loosened("budgets.default.writes_per_hour rises from 50 to 60"))
	before := strings.Count(r.audit("--type", "reload"), "loosens")
	writeBundle(t, bundle, harmless+"\n"+strings.ReplaceAll(closed, "own.closed", "own.shut"))
	ring.Until(r.t, "the new prohibition", func() bool { return strings.Contains(r.do("POST", "/memories", note).body, "own.shut") })
	if n := strings.Count(r.audit("--type", "reload"), "loosens"); n != before {
		t.Errorf("a tightening edit is named: %s", r.audit("--type", "reload"))
	}

	r.stop()
	r.conf = strings.Replace(r.conf, "max_rejections: 2", "max_rejections: 9", 1)
	r.run()
	ring.Until(r.t, "the configuration's edit", loosened("sessions.max_rejections: 2 became 9"))
	if !strings.Contains(r.log.String(), "sessions.max_rejections: 2 became 9") {
		t.Errorf("the configuration's edit is not named: %s", r.audit("--type", "reload"))
	}
	r.stop()
	r.conf = strings.Replace(r.conf, "max_rejections: 9", "max_rejections: 1", 1)
	r.run()
	r.do("POST", "/memories", note)
	if loosened("max_rejections: 9 became")() {
		t.Error("a tightening edit of the configuration is named")
	}
}

// A record names as many loosened settings and faults as it keeps as they are: a longer text
// is replaced by its hash.
//
// Proves CARD-7.
func TestEditsAreListed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("sessions.max_rejections: \"3\" became \"9\"\n", 40)
	for want, sentences := range map[string][]string{
		"one": {"one"}, "one; two": {"one", "two"},
		"; and 2": strings.Split(long, "\n"), "3": {long, "two"},
	} {
		quoted := strconv.Quote(sentencesOf(sentences))
		if !strings.Contains(quoted, want) || len(quoted) > 1000 {
			t.Errorf("%d bytes, want %q in %s", len(quoted), want, quoted)
		}
	}
}

// Proves TRL-10: check prints the controls that the file sets or, on request, all, each
// with its state, value and origin. The switches of budgets and clamp work.
func TestCheckPrintsTheProfile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "memproxy.yaml")
	writeFile(t, path, strings.NewReplacer("DIR", dir, "UPSTREAM", "http://127.0.0.1:1", "KEY", sha(devToken)).Replace(plain)+"screening: {enabled: false}\n")
	t.Setenv(config.UnsafeEnv, "screening.enabled")
	_, short, _ := invoke(t, "check", "--config", path)
	if n := strings.Count(short, "\n"); n > 24 || !strings.Contains(short, "(UNSAFE)") || strings.Contains(short, "max_rejections") || strings.Contains(short, "screen.hostile") {
		t.Errorf("%d lines:\n%s", n, short)
	}
	code, out, errs := invoke(t, "check", "--controls", "--config", path)
	if code != 0 {
		t.Fatalf("%d %s", code, errs)
	}
	for _, want := range [][]string{
		{"screening.enabled", "off", "false", path + ":", "(UNSAFE)"},
		{"sessions.max_rejections", "on", "3", "default"},
		{"backends[mem0].ungated", "on", "deny", "profile production"},
		{"policy screen.hostile", "on", "deny", "builtin/"},
	} {
		found := false
		for line := range strings.SplitSeq(out, "\n") {
			words := true
			for _, w := range want {
				words = words && strings.Contains(line, w)
			}
			found = found || words
		}
		if !found {
			t.Errorf("no line with %q in\n%s", want, out)
		}
	}

	policies := policyDir(t, holdingPolicy)
	writeFile(t, filepath.Join(policies, "bundle.yaml"), "builtin: false")
	writeFile(t, path, strings.NewReplacer("DIR", dir, "UPSTREAM", "http://127.0.0.1:1", "KEY", sha(devToken)).Replace(plain)+"policy: {dir: "+policies+"}\n")
	if _, out, errs := invoke(t, "check", "--config", path); !regexp.MustCompile(`policy screen\.hostile +off +- +bundle\.yaml: builtin`).MatchString(out) || strings.Contains(out, "policy access.") {
		t.Errorf("without the built-in policies:\n%s%s", out, errs)
	}

	r := start(t, plain, "log: {level: info}", "budgets: {enforce: false, default: {writes_per_hour: 1}}\nconfidence: {clamp: false}")
	claim := `{"messages":[{"role":"user","content":"the office is in Bern"}],"user_id":"ann","agent_id":"dev","infer":false,"metadata":{"confidence":0.99}}`
	for range 3 {
		r.do("POST", "/memories", claim).want(t, 200)
	}
	if rec := r.audit("--type", "decision"); !strings.Contains(rec, `"given":990`) {
		t.Errorf("clamped: %s", rec)
	}
	r = start(t, plain, "log: {level: info}", "budgets: {default: {writes_per_hour: 1}}")
	if a, b := r.do("POST", "/memories", claim), r.do("POST", "/memories", claim); a.status != 200 || b.status != 429 {
		t.Errorf("with the switches on: %d, then %d", a.status, b.status)
	}
	if rec := r.audit("--type", "decision"); !strings.Contains(rec, `"given":700`) {
		t.Errorf("not clamped: %s", rec)
	}
}
