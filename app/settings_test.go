package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/proxy"
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
			expect.Equal(t, code, cli.Failed, command, allowed, "allowed: exit")
			expect.Text(t, errs, command, allowed, "allowed: exit").Has(path+":", config.UnsafeEnv+"=")
			expect.Text(t, errs, command, "what is allowed is refused").Lacks("=" + allowed + "\n")
		}
	}
	expect.Error(t, expect.Err(os.Stat(filepath.Join(dir, "state"))), "a refused start made a state")

	r := start(t, plain+"enforce: false\nscreening: {enabled: false}\n")
	r.do("POST", "/memories", note).want(t, 200)
	if log := r.log.String(); strings.Count(log, "UNSAFE: ") != 2 || !strings.Contains(log, `"setting":"screening.enabled"`) {
		t.Errorf("the log: %s", log)
	}
	r.get("/readyz").want(t, 200).has(t, "enforce, screening.enabled", "degraded")
	expect.Text(t, r.get("/metrics").body, "the metric does not say so").Has(`memproxy_unsafe_setting{setting="enforce"} 1`, `memproxy_unsafe_setting{setting="screening.enabled"} 1`)
	r.stop()
	records := strings.Split(strings.TrimSpace(r.audit()), "\n")
	must.Equal(t, len(records) >= 3, true, len(records), "records")
	for _, rec := range records {
		expect.Text(t, rec, "a record does not say so").Has(`"unsafe":["enforce","screening.enabled"]`)
	}
	ran(t, "audit", "verify", "--dir", filepath.Join(r.dir, "state", "audit")).want(t, 0)

	// Without them nothing is reported.
	r = start(t, plain)
	r.do("POST", "/memories", note)
	a := r.get("/readyz")
	expect.Equal(t, !strings.Contains(a.body, "unsafe") && !strings.Contains(r.get("/metrics").body, "memproxy_unsafe_setting{") && !strings.Contains(r.log.String(), "UNSAFE") && !strings.Contains(r.audit(), `"unsafe"`), true, "nothing is weakened", a.body)
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
	ring.Until(r.t, "the prohibition that is gone", loosened("policy own.closed (deny) was removed"))
	writeFile(t, filepath.Join(bundle, "bundle.yaml"), "shadow: [field.protected]\ndisable: [screen.hostile]\nbudgets: {default: {writes_per_hour: 50}}\n")
	ring.Until(r.t, "the rule in shadow", loosened("policy field.protected (deny) is in shadow"))
	for _, want := range []string{"policy screen.hostile (deny) was removed"} {
		expect.Equal(t, loosened(want)(), true, "not named", want)
	}
	writeFile(t, filepath.Join(bundle, "bundle.yaml"), "budgets: {default: {writes_per_hour: 60}}\n")
	ring.Until(r.t, "the budget", loosened("budgets.default.writes_per_hour rises from 50 to 60"))
	before := strings.Count(r.audit("--type", "reload"), "loosens")
	writeBundle(t, bundle, harmless+"\n"+strings.ReplaceAll(closed, "own.closed", "own.shut"))
	ring.Until(r.t, "the new prohibition", func() bool { return strings.Contains(r.do("POST", "/memories", note).body, "own.shut") })
	expect.Equal(t, strings.Count(r.audit("--type", "reload"), "loosens"), before, "a tightening edit is named")

	r.stop()
	r.conf = strings.Replace(r.conf, "max_rejections: 2", "max_rejections: 9", 1)
	r.run()
	ring.Until(r.t, "the configuration's edit", loosened("sessions.max_rejections: 2 became 9"))
	expect.Text(t, r.log.String(), "the configuration's edit is not named").Has("sessions.max_rejections: 2 became 9")
	r.stop()
	r.conf = strings.Replace(r.conf, "max_rejections: 9", "max_rejections: 1", 1)
	r.run()
	r.do("POST", "/memories", note)
	expect.Equal(t, !loosened("max_rejections: 9 became")(), true, "a tightening edit of the configuration is named")
}

// settingsFile has the settings of the last start, in the state directory.
const settingsFile = "settings.json"

// A file of settings that does not list any is reported, and written again.
func TestDamagedSettingsAreReported(t *testing.T) {
	t.Parallel()
	r := start(t, plain)
	for i, text := range []string{"", "{", "null", "[]"} {
		r.stop()
		writeFile(t, filepath.Join(r.dir, "state", settingsFile), text)
		r.run()
		expect.Equal(t, strings.Count(r.log.String(), "the settings of the last start cannot be read"), i+1, text, "the log says it")
	}
}

// An empty directory that was made for the state is closed to other users; what is in
// one with files is not touched.
func TestAnEmptyStateDirectoryIsClosed(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]os.FileMode{"": 0o700, "another's": 0o755} {
		state := filepath.Join(t.TempDir(), "state")
		must.Do(t, errors.Join(os.Mkdir(state, 0o755), os.Chmod(state, 0o755)))
		if file != "" {
			writeFile(t, filepath.Join(state, file), "x")
		}
		start(t, plain, "DIR/state", state)
		expect.Equal(t, must.Get(os.Stat(state))(t).Mode().Perm(), want, file, "in it the mode is")
	}
}

// A record names as many loosened settings and faults as it keeps as they are: a longer text
// is replaced by its hash.
//
// Proves CARD-7.
func TestEditsAreListed(t *testing.T) {
	t.Parallel()
	p, dir := newPaces(), policyDir(t, holdingPolicy)
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, plain+"policy: {dir: \""+dir+"\"}\n")
	var shipped []string
	for _, rule := range must.Get(cedar.Compile(policy.Builtin()))(t).Rules() {
		if rule.Effect != "permit" {
			shipped = append(shipped, rule.ID)
		}
	}
	writeFile(t, filepath.Join(dir, "bundle.yaml"), "disable: ["+strings.Join(shipped, ", ")+"]")
	r.within(p, time.Second, "the policies", func() bool { return strings.Contains(r.log.String(), "rules reloaded") })
	must.Do(t, os.Rename(writeFile(t, r.file+".new", strings.Repeat("x", 1000)+": 1\n"+r.conf), r.file))
	r.within(p, time.Second, "the configuration", func() bool { return strings.Contains(r.log.String(), "configuration reload failed") })
	must.Do(t, r.car.Flush(t.Context()))
	details := regexp.MustCompile(`"detail":("(?:[^"\\]|\\.)*")`).FindAllStringSubmatch(r.audit("--type", "reload"), -1)
	// Rules and configuration are reloaded by jobs of their own, so their records may be in either order.
	for _, want := range []string{"in force", "an edit of the rules loosens: ", "an edit of the configuration was not put in force: "} {
		i := slices.IndexFunc(details, func(found []string) bool {
			return strings.Contains(found[1], `"`+want) || strings.Contains(found[1], " "+want)
		})
		must.Equal(t, i >= 0, true, want)
		if detail := details[i][1]; len(detail) > 1000 || strings.Contains(want, "loosens") && !regexp.MustCompile(`; and [0-9]+ more"$`).MatchString(detail) {
			t.Errorf("%s is too long, or does not say how many more there are", detail)
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
	n := strings.Count(short, "\n")
	expect.Equal(t, n <= 24 && strings.Contains(short, "(UNSAFE)") && !strings.Contains(short, "max_rejections") && !strings.Contains(short, "screen.hostile"), true, n, "lines", short)
	code, out, errs := invoke(t, "check", "--controls", "--config", path)
	must.Equal(t, code, 0, errs)
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
		expect.Equal(t, found, true, "no line with", want, "in", out)
	}

	policies := policyDir(t, holdingPolicy)
	writeFile(t, filepath.Join(policies, "bundle.yaml"), "builtin: false")
	writeFile(t, path, strings.NewReplacer("DIR", dir, "UPSTREAM", "http://127.0.0.1:1", "KEY", sha(devToken)).Replace(plain)+"policy: {dir: "+policies+"}\n")
	ran(t, "check", "--config", path).want(t, cli.Failed, "without the built-in policies, not allowed").has(t, config.UnsafeEnv+"="+config.BuiltinPolicies)
	t.Setenv(config.UnsafeEnv, config.BuiltinPolicies)
	if _, out, errs := invoke(t, "check", "--config", path); !regexp.MustCompile(`policy screen\.hostile +off +- +bundle\.yaml: builtin`).MatchString(out) || strings.Contains(out, "policy access.") {
		t.Errorf("without the built-in policies:\n%s%s", out, errs)
	}

	writeFile(t, filepath.Join(policies, "bundle.yaml"), "budgets: {default: {writes_per_hour: 7}, rapid_per_minute: 0}\nconfidence: {principal: {anonymous: 0.1}}")
	_, out, _ = invoke(t, "check", "--config", path)
	for _, want := range [...]string{`budgets.default.writes_per_hour +on +7 +bundle`, `budgets.rapid_per_minute +off +0 +bundle`, `confidence.principal\[anonymous\] +on +0.1 +bundle`} {
		expect.Equal(t, regexp.MustCompile(want).MatchString(out), true, "the directory's own limits and ceilings", want, out)
	}

	r := start(t, plain, "log: {level: info}", "budgets: {enforce: false, default: {writes_per_hour: 1}}\nconfidence: {clamp: false}")
	claim := `{"messages":[{"role":"user","content":"the office is in Bern"}],"user_id":"ann","agent_id":"dev","infer":false,"metadata":{"confidence":0.99}}`
	for range 3 {
		r.do("POST", "/memories", claim).want(t, 200)
	}
	expect.Text(t, r.audit("--type", "decision"), "clamped").Has(`"given":990`)
	r = start(t, plain, "log: {level: info}", "budgets: {default: {writes_per_hour: 1}}")
	a, b := r.do("POST", "/memories", claim), r.do("POST", "/memories", claim)
	expect.Equal(t, a.status == 200 && b.status == 429, true, "with the switches on", a.status, "then", b.status)
	expect.Text(t, r.audit("--type", "decision"), "not clamped").Has(`"given":700`)
}

// An edit of the callers while the issuer is away, such as the revocation of a key, leaves
// the issuer's keys known: its tokens are accepted as before, by the edited rules. Another
// issuer's keys are not taken over.
func TestIssuersKeysSurviveEdits(t *testing.T) {
	t.Parallel()
	p, issuer, other := newPaces(), newTokenIssuer(t), newTokenIssuer(t)
	oidc := func(of *tokenIssuer) string {
		return `  oidc: {issuer: "` + of.URL + `", audience: memproxy, claims: {tenant: tenant, acts_as: acts_as}}
log: {level: info}`
	}
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, seals: true, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, plain, "log: {level: info}", oidc(issuer))
	write := func(token string) int {
		return r.do("POST", "/memories", note, "X-API-Key", "", "X-Memproxy-Token", token).status
	}
	edit := func(text string) {
		t.Helper()
		reloaded := func() int { return strings.Count(r.log.String(), "configuration reloaded") }
		before := reloaded()
		must.Do(t, os.Rename(writeFile(t, r.file+".new", text), r.file))
		r.within(p, time.Second, "the edit in force", func() bool { return reloaded() > before })
	}
	expect.Equal(t, write(issuer.token("memproxy", "first")), 200)
	issuer.away.Store(true)
	edit(r.conf + "budgets: {default: {writes_per_hour: 77}}\n")
	expect.Equal(t, write(issuer.token("memproxy", "other")), 200, "after an edit of no caller")
	edit(strings.Replace(r.conf, "users: [ann]", "users: [ann, bob]", 1))
	expect.Equal(t, write(issuer.token("memproxy", "second")), 200, "after an edit of another caller")
	edit(strings.Replace(r.conf, "audience: memproxy", "audience: elsewhere", 1))
	expect.Equal(t, write(issuer.token("memproxy", "third")), 401, "after an edit of the audience")
	expect.Equal(t, write(issuer.token("elsewhere", "third")), 200, "after an edit of the audience")
	edit(strings.Replace(r.conf, issuer.URL, other.URL, 1))
	expect.Equal(t, write(issuer.token("memproxy", "fourth")), 401, "of an issuer that was replaced")
	expect.Equal(t, write(other.token("memproxy", "fourth")), 200, "of the new issuer")
}

// An edit of the configuration is applied atomically by the running process: callers,
// budgets and rule switches at once, while settings that need a restart are named. An
// edit that is broken, weakens production, or gives a name to another tenant changes
// nothing, and is reported until fixed.
//
// Proves CARD-3, EDGE-3.
func TestConfigurationReloads(t *testing.T) {
	t.Parallel()
	p := newPaces()
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, seals: true, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, plain, `listen: "127.0.0.1:0", upstream`, `listen: ":0", upstream`)
	const second = "second-key-77aa"
	row := func(secret, tenant string) string {
		return `    - {sha256: "` + sha(secret) + `", id: "agent:` + tenant + `", kind: agent, trust: authenticated, tenant: ` + tenant + `, roles: [dev], acts_as: [` + tenant + `], users: [bob]}` + "\n"
	}
	write := func(key, user, agent string) int {
		return r.do("POST", "/memories", `{"user_id":"`+user+`","agent_id":"`+agent+`","infer":false,"messages":[{"role":"user","content":"likes tea"}]}`, "X-API-Key", key).status
	}
	edit := func(text, what string, until func() bool) {
		t.Helper()
		must.Do(t, os.Rename(writeFile(t, r.file+".new", text), r.file)) // polls are faster than writes here
		r.within(p, time.Second, what, until)
	}
	says := func(want string) func() bool {
		return func() bool { return strings.Contains(r.get("/readyz").body, want) }
	}
	must.Equal(t, write(second, "bob", "globex"), 401, "a key that is not configured")

	// An edit whose settings cannot be stored for the next start takes effect all the
	// same.
	before := r.rules()
	file := filepath.Join(r.dir, "state", settingsFile)
	must.Do(t, errors.Join(os.Rename(file, file+".aside"), os.MkdirAll(filepath.Join(file, "in the way"), 0o700)))
	edit(strings.Replace(r.conf, "log: {level: info}", "log: {level: info}\nbudgets: {default: {writes_per_hour: 77}}", 1), "an edit that cannot be kept", func() bool {
		return r.rules() != before && strings.Contains(r.log.String(), "the settings cannot be saved")
	})
	r.get("/readyz").lacks(t, "not in force")
	must.Do(t, errors.Join(os.RemoveAll(file), os.Rename(file+".aside", file)))

	keys := strings.Replace(r.conf, "log: {", row(second, "globex")+"log: {", 1)
	edit(keys, "another key", func() bool { return write(second, "bob", "globex") == 200 })
	expect.Equal(t, write(devToken, "ann", "dev"), 200, "the key that stays")

	for name, c := range map[string]struct{ text, why string }{
		"broken":                   {keys + "budgets: nonsense\n", "memproxy.yaml:"},
		"weaker":                   {keys + "enforce: false\n", "enforce"},
		"weaker after a restart":   {keys + "screening: {enabled: false}\n", "screening.enabled weakens production"},
		"unusable after a restart": {keys + "audit: {origin: \"two words\"}\n", "audit.origin: a log's name"},
		"another profile":          {strings.Replace(keys, "profile: production", "profile: development", 1), "profile: restart"},
		"open before a restart":    {strings.NewReplacer(`listen: ":0"`, `listen: "127.0.0.1:0"`, "identity:\n", "identity:\n  default: {id: demo}\n").Replace(keys), "restart to put this edit in force"},
		"another tenant's own bob": {strings.Replace(keys, row(second, "globex"), row(second, "initech"), 1), "bob"},
	} {
		edit(c.text, name, says("the newest edit is not in force"))
		expect.Text(t, r.get("/readyz").body, name).Has(c.why)
		expect.Equal(t, write(second, "bob", "globex"), 200, name, "what was in force is not any more")
		edit(keys, "the edit taken back", func() bool { return !says("not in force")() })
	}

	must.Do(t, errors.Join(syscall.Mkfifo(r.file+".pipe", 0o600), os.Rename(r.file+".pipe", r.file)))
	r.within(p, time.Second, "a pipe in its place", says("memproxy.yaml is not a file"))
	edit(keys, "the file back in its place", func() bool { return !says("not in force")() })

	narrow := strings.Replace(keys, "log: {level: info}", "log: {level: warn}\nbudgets: {default: {writes_per_hour: 1}}", 1)
	edit(narrow, "a limit", func() bool { return write(second, "bob", "globex") == 429 })
	ring.Until(t, "what needs a restart, and nothing else, being named", says(`need a restart: log.level"`))
	edit(keys, "the limit taken back", func() bool { return write(second, "bob", "globex") == 200 })
	ring.Until(t, "what loosens being on record", func() bool {
		return strings.Contains(r.audit("--type", "reload"), "loosens: budgets.default.writes_per_hour: 1 became")
	})
	edit(strings.Replace(keys, row(second, "globex"), "", 1), "a key taken away", func() bool { return write(second, "bob", "globex") == 401 })

	hash := writeFile(t, filepath.Join(t.TempDir(), "hash"), sha(second)+"\n") // a file of its own, in another directory
	edit(strings.Replace(keys, sha(second), "file:"+hash, 1), "a key by reference", func() bool { return write(second, "bob", "globex") == 200 })
	writeFile(t, hash, sha("another key"))
	r.within(p, time.Second, "the other key in the file", func() bool { return write(second, "bob", "globex") == 401 })
	must.Do(t, os.Remove(hash))
	r.within(p, time.Second, "the file is gone", says("the newest edit is not in force"))
	expect.Equal(t, write("another key", "bob", "globex"), 200, "what was in force is not any more")
}

// A broken edit of the policies remains reported while other files are edited.
//
// Proves CARD-3.
func TestBrokenPoliciesRemainReported(t *testing.T) {
	t.Parallel()
	p, dir := newPaces(), filepath.Join(t.TempDir(), "policies")
	writeBundle(t, dir, harmless)
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, plain+"policy: {dir: \""+dir+"\"}\n")
	isBroken := func() bool { return strings.Contains(r.get("/readyz").body, "the newest edit is broken") }
	writeBundle(t, dir, broken)
	r.within(p, time.Second, "the broken policies", isBroken)
	edited := filepath.Join(t.TempDir(), "edited.yaml")
	must.Do(t, os.Rename(writeFile(t, edited, r.conf+"budgets: {default: {writes_per_hour: 77}}\n"), r.file))
	r.within(p, time.Second, "the other configuration", func() bool { return strings.Contains(r.log.String(), "configuration reloaded") })
	expect.Equal(t, isBroken(), true, "an edit of the configuration hides that the policies are broken")
	writeBundle(t, dir, harmless)
	r.within(p, time.Second, "the policies mended", func() bool { return !isBroken() })
}

// A store's errors differ at each attempt, and an edit's failure is reported once for each
// text: an outage of the ledger has one. Contradictions of names keep theirs:
// TestConfigurationReloads.
//
// Proves CARD-3.
func TestOutagesOfTheLedgerAreOneFailure(t *testing.T) {
	p := newPaces()
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, plain)
	must.Do(t, r.car.Ledger.Close()) // an outage
	must.Do(t, os.Rename(writeFile(t, r.file+".new", strings.Replace(r.conf, "users: [ann]", "users: [ann, bob]", 1)), r.file))
	r.within(p, time.Second, "the outage", func() bool { return strings.Contains(r.get("/readyz").body, "the newest edit is not in force") })
	r.get("/readyz").has(t, `"the newest edit is not in force: the ledger is unavailable, so the names in the configuration are not bound to their tenants yet; retrying"`)
	_ = r.car.Close(t.Context()) // which has no ledger
	r.car = nil
}

// Proves TRL-10: the listeners use the default limits that the effective profile
// prints.
func TestBoundsOfTheProfileAreInForce(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("DIR", "d", "UPSTREAM", "http://127.0.0.1:9", "KEY", sha("k")).Replace(plain)
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	got := map[string]string{}
	for _, s := range cfg.Settings() {
		got[s.Path] = s.Value
	}
	written := func(d time.Duration) string { return config.Duration(d).String() }
	for path, want := range map[string]string{
		"backends[mem0].limits.body":       fmt.Sprint(frontend.DefaultMaxBody),
		"backends[mem0].limits.answer":     fmt.Sprint(frontend.DefaultMaxAnswer),
		"backends[mem0].timeouts.body":     written(proxy.DefaultBodyTimeout),
		"backends[mem0].timeouts.upstream": written(proxy.DefaultUpstreamTimeout),
		"backends[mem0].timeouts.run":      written(proxy.DefaultRunTimeout),
		"backends[mem0].reconcile":         written(proxy.DefaultReconcile),
		"limits.connections":               fmt.Sprint(frontend.DefaultConnections),
		"limits.connections_per_address":   fmt.Sprint(frontend.DefaultConnections * 3 / 4),
		"limits.in_flight":                 fmt.Sprint(frontend.DefaultInFlight),
		"limits.in_flight_per_address":     fmt.Sprint(frontend.DefaultInFlightPeer),
		"limits.write":                     written(frontend.DefaultWriteTimeout),
	} {
		expect.Equal(t, got[path], want, path, "is told as")
	}
}
