package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// An edit of the configuration is applied atomically by the running process: callers,
// budgets and rule switches at once, while settings that need a restart are named. An
// edit that is broken, weakens production, or gives a name to another tenant changes
// nothing, and is reported until fixed.
//
// Proves CARD-3, EDGE-3.
func TestConfigurationReloads(t *testing.T) {
	t.Parallel()
	p := newPaces()
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, seals: true, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, plain)
	const second = "second-key-77aa"
	row := func(secret, tenant string) string {
		return `    - {sha256: "` + sha(secret) + `", id: "agent:` + tenant + `", kind: agent, trust: authenticated, tenant: ` + tenant + `, roles: [dev], acts_as: [` + tenant + `], users: [bob]}` + "\n"
	}
	write := func(key, user, agent string) int {
		return r.do("POST", "/memories", `{"user_id":"`+user+`","agent_id":"`+agent+`","infer":false,"messages":[{"role":"user","content":"likes tea"}]}`, "X-API-Key", key).status
	}
	edit := func(text, what string, until func() bool) {
		t.Helper()
		if err := os.Rename(writeFile(t, r.file+".new", text), r.file); err != nil { // polls are faster than writes here
			t.Fatal(err)
		}
		r.within(p, time.Second, what, until)
	}
	says := func(want string) func() bool {
		return func() bool { return strings.Contains(r.get("/readyz").body, want) }
	}
	if got := write(second, "bob", "globex"); got != 401 {
		t.Fatalf("a key that is not configured: %d", got)
	}

	// An issuer's cached keys survive unrelated edits; an edit whose settings cannot be
	// stored for the next start takes effect all the same.
	known, before := r.car.callers.now.Load(), r.car.rules.current().Version
	file := filepath.Join(r.dir, "state", settingsFile)
	must.Do(t, errors.Join(os.Rename(file, file+".aside"), os.MkdirAll(filepath.Join(file, "in the way"), 0o700)))
	edit(strings.Replace(r.conf, "log: {level: info}", "log: {level: info}\nbudgets: {default: {writes_per_hour: 77}}", 1), "an edit that cannot be kept", func() bool {
		return r.car.rules.current().Version != before && strings.Contains(r.log.String(), "the settings cannot be kept")
	})
	if body := r.get("/readyz").body; strings.Contains(body, "not in force") || r.car.callers.now.Load() != known {
		t.Errorf("it is not in force, or callers are made anew: %s", body)
	}
	must.Do(t, errors.Join(os.RemoveAll(file), os.Rename(file+".aside", file)))

	keys := strings.Replace(r.conf, "log: {", row(second, "globex")+"log: {", 1)
	edit(keys, "another key", func() bool { return write(second, "bob", "globex") == 200 })
	if got := write(devToken, "ann", "dev"); got != 200 {
		t.Errorf("the key that stays: %d", got)
	}

	for name, c := range map[string]struct{ text, why string }{
		"broken":                   {keys + "budgets: nonsense\n", "memproxy.yaml:"},
		"weaker":                   {keys + "enforce: false\n", "enforce"},
		"another profile":          {strings.Replace(keys, "profile: production", "profile: development", 1), "profile: restart"},
		"another tenant's own bob": {strings.Replace(keys, row(second, "globex"), row(second, "initech"), 1), "bob"},
	} {
		edit(c.text, name, says("the newest edit is not in force"))
		if body := r.get("/readyz").body; !strings.Contains(body, c.why) {
			t.Errorf("%s: %q is not named: %s", name, c.why, body)
		}
		if got := write(second, "bob", "globex"); got != 200 {
			t.Errorf("%s: what was in force is not any more: %d", name, got)
		}
		edit(keys, "the edit taken back", func() bool { return !says("not in force")() })
	}

	must.Do(t, errors.Join(syscall.Mkfifo(r.file+".pipe", 0o600), os.Rename(r.file+".pipe", r.file)))
	r.within(p, time.Second, "a pipe in its place", says("memproxy.yaml is not a file"))
	edit(keys, "the file back in its place", func() bool { return !says("not in force")() })

	narrow := strings.Replace(keys, "log: {level: info}", "log: {level: warn}\nbudgets: {default: {writes_per_hour: 1}}", 1)
	edit(narrow, "a limit", func() bool { return write(second, "bob", "globex") == 429 })
	ring.Until(t, "what needs a restart, and nothing else, being named", says(`need a restart: log"`))
	edit(keys, "the limit taken back", func() bool { return write(second, "bob", "globex") == 200 })
	ring.Until(t, "what loosens being on record", func() bool {
		return strings.Contains(r.audit("--type", "reload"), "loosens: budgets.default.writes_per_hour: 1 became")
	})
	edit(strings.Replace(keys, row(second, "globex"), "", 1), "a key taken away", func() bool { return write(second, "bob", "globex") == 401 })
}

// A broken edit of the policies remains reported while other files are edited.
//
// Proves CARD-3.
func TestBrokenPoliciesRemainReported(t *testing.T) {
	t.Parallel()
	p, dir := newPaces(), filepath.Join(t.TempDir(), "policies")
	writeBundle(t, dir, harmless)
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, plain+"policy: {dir: \""+dir+"\"}\n")
	isBroken := func() bool { _, err := r.car.rules.state(); return err != nil }
	writeBundle(t, dir, broken)
	r.within(p, time.Second, "the broken policies", isBroken)
	edited := filepath.Join(t.TempDir(), "edited.yaml")
	must.Do(t, os.Rename(writeFile(t, edited, r.conf+"budgets: {default: {writes_per_hour: 77}}\n"), r.file))
	r.within(p, time.Second, "the other configuration", func() bool { return strings.Contains(r.log.String(), "was edited and is in force") })
	if !isBroken() {
		t.Error("an edit of the configuration hides that the policies are broken")
	}
	writeBundle(t, dir, harmless)
	r.within(p, time.Second, "the policies mended", func() bool { return !isBroken() })
}

// A store's errors differ at each attempt, and an edit's failure is reported once for each
// text: an outage of the ledger has one. Contradictions of names keep theirs.
//
// Proves CARD-3.
func TestOutagesOfTheLedgerAreOneFailure(t *testing.T) {
	first, second := oneOutage(errors.New("dial tcp 127.0.0.1:50001: refused")), oneOutage(fmt.Errorf("names: %w", errors.New("dial tcp 127.0.0.1:50002: refused")))
	if first.Error() != second.Error() || strings.Contains(first.Error(), "127.0.0.1") {
		t.Errorf("%v, %v", first, second)
	}
	if got := oneOutage(fmt.Errorf("names: %w", config.Faults{"bob is globex's"})); got.Error() != (config.Faults{"bob is globex's"}).Error() {
		t.Error(got)
	}
}
