package config_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// everything has an entry in each list and map and every optional section, so that it
// contains all keys.
const everything = `state: ./s
backends: [{name: mem0, kind: mem0, listen: "127.0.0.1:8081", upstream: "http://127.0.0.1:8000"}]
identity:
  require: true
  keys: [{sha256: "` + someHash + `", id: "agent:dev", acts_as: [dev], users: [ann], apps: [a], runs: [r], roles: [dev]}]
  oidc: {issuer: "https://i.example", audience: a, rules: [{subject: "s"}]}
  spiffe: {trust_domain: d.example, rules: [{path: "/a"}]}
screening:
  sources: {hostile: high}
  similar: {url: "http://127.0.0.1:1", model: m, thresholds: {trusted: 0.9, verified: 0.8, untrusted: 0.7, hostile: 0.6}}
  baseline: {learn: 60}
  judge: {url: "http://127.0.0.1:1", model: m}
sources: {names: {crm: verified}}
memories: {ttl: {default: 30d}, layers: {semantic: {ttl: 30d}}}
confidence: {principal: {anonymous: 0.2}, source: {hostile: 0.1}}
budgets: {overrides: {"agent:dev": {writes_per_hour: 5, writes_total: 50}}, tenants: {"*": {writes_per_hour: 5}, acme: {writes_per_hour: 5, writes_total: 9}}, namespaces: {n: {writes_per_hour: 5, writes_total: 9}}, redis: {url: "redis://127.0.0.1:1"}}
sessions: {strikes: 3, principal_strikes: 10}
review: {reviewers: [{id: r, sha256: "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a", tenants: [acme]}], webhook: {url: "http://127.0.0.1:1", key: 0123456789abcdef}}
`

const someHash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func settings(t *testing.T, text string) map[string]config.Setting {
	t.Helper()
	c := must.Get(config.Parse("memproxy.yaml", []byte(text), func(string) string { return "" }))(t)
	out := map[string]config.Setting{}
	for _, s := range c.Settings() {
		if _, twice := out[s.Path]; twice {
			t.Errorf("%s is there twice", s.Path)
		}
		out[s.Path] = s
	}
	return out
}

// direction is the form of the tag loose: which way a key loosens a control, or "-",
// and which values weaken production.
var direction = regexp.MustCompile(`^(-|up0?|down0?|more|fewer|names|present|order:[^;,]+(,[^;,]+)+)(;unsafe)?(;off:[^;]+)?$`)

// directions are the loose tags by key.
func directions() map[string]string {
	declared := map[string]string{}
	var walk func(typ reflect.Type, prefix string)
	walk = func(typ reflect.Type, prefix string) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		for _, f := range fields(typ) {
			name := strings.TrimPrefix(prefix+"."+f.Key, ".")
			inner := f.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
				inner = inner.Elem()
			}
			block := inner.Kind() == reflect.Struct && inner != reflect.TypeFor[config.Secret]()
			if f.Loose != "" || !block {
				declared[name] = f.Loose
			}
			if block {
				walk(inner, name)
			}
		}
	}
	walk(reflect.TypeFor[config.Config](), "")
	return declared
}

// Proves GOV-6, TRL-10: every key declares which way it loosens a control, or that no
// control depends on it, and the effective profile has each key that does.
func TestEveryKeyDeclaresItsDirection(t *testing.T) {
	declared := directions()
	for name, tag := range declared {
		expect.Equal(t, direction.MatchString(tag), true, name, "the tag loose is", tag, "say which way the key loosens a control, or -")
	}
	seen := map[string]bool{}
	for _, s := range settings(t, everything) {
		seen[s.Name] = true
		if s.Status == "" || s.From == "" {
			t.Errorf("%s has status %q, from %q", s.Path, s.Status, s.From)
		}
	}
	for name, tag := range declared {
		if (tag != "-") != seen[name] && name != "identity.default" && !strings.HasPrefix(name, "identity.default.") {
			t.Errorf("%s: tag %q, in the profile: %v", name, tag, seen[name])
		}
	}
}

// Proves GOV-6: each setting that weakens production is reported with its line and how
// to allow it; the nearest harmless value is accepted.
func TestWhatWeakensProduction(t *testing.T) {
	cases := []struct{ key, weak, fine string }{
		{"enforce", "enforce: false", "enforce: true"},
		{"screening.enabled", "screening: {enabled: false}", "screening: {enabled: true}"},
		{"screening.disable", "screening: {disable: [lexicon]}", "screening: {disable: []}"},
		{"screening.withhold", "screening: {withhold: 0}", "screening: {withhold: 0.9}"},
		{"screening.withhold", "screening: {withhold: 1}", "screening: {sensitivity: low}"},
		{"ownership.unattributed", "ownership: {unattributed: visible}", "ownership: {unattributed: hidden}"},
		{"ownership.changed", "ownership: {changed: ignore}", "ownership: {changed: report}"},
		{"answers.unclaimed", "answers: {unclaimed: pass}", "answers: {unclaimed: drop}"},
		{"answers.headers", "answers: {headers: pass}", "answers: {headers: drop}"},
		{"memories.inferred", "memories: {inferred: allow}", "memories: {inferred: mark}"},
		{"memories.layers.task.inferred", "memories: {layers: {task: {inferred: allow}}}", "memories: {layers: {task: {inferred: hold}}}"},
		{"memories.layers.task.inferred", "memories: {inferred: refuse, layers: {task: {inferred: allow}}}", "memories: {inferred: refuse, layers: {task: {inferred: mark}}}"},
		{"memories.namespaces.outside", "memories: {namespaces: {outside: allow}}", "memories: {namespaces: {outside: refuse}}"},
		{"memories.pending", "memories: {pending: []}", "memories: {pending: [anonymous, new, authenticated]}"},
		{"sources.pending", "sources: {pending: []}", "sources: {pending: [hostile, untrusted]}"},
		{"sources.names", "sources: {names: {\"*\": trusted}}", "sources: {names: {crm: trusted}}"},
		{"sources.names", "sources: {names: {\"*\": verified}}", "sources: {names: {\"*\": hostile}}"},
		{"memories.new.accepted", "memories: {new: {accepted: 0}}", "memories: {new: {accepted: 20}}"},
		{"memories.validate", "memories: {validate: 0}", "memories: {validate: 1h}"},
		{"memories.seal", "memories: {seal: false}", "memories: {seal: true}"},
		{"memories.sweep", "memories: {sweep: 0}", "memories: {sweep: 24h}"},
		{"review.reevaluate", "review: {reevaluate: release}", "review: {reevaluate: reject}"},
		{"sessions.max_rejections", "sessions: {max_rejections: 0}", "sessions: {max_rejections: 50}"},
		{"sessions.max_user_rejections", "sessions: {max_user_rejections: 0}", "sessions: {max_user_rejections: 50}"},
		{"sessions.max_principal_rejections", "sessions: {max_principal_rejections: 0}", "sessions: {max_principal_rejections: 500}"},
		{"sessions.principal_strikes", "sessions: {principal_strikes: 0}", "sessions: {principal_strikes: 50}"},
		{"budgets.enforce", "budgets: {enforce: false}", "budgets: {default: {writes_per_hour: 100000}}"},
		{"budgets.rapid_per_minute", "budgets: {rapid_per_minute: 0}", "budgets: {rapid_per_minute: 60}"},
		{"confidence.clamp", "confidence: {clamp: false}", "confidence: {principal: {anonymous: 0.4}}"},
		{"backends.ungated", "BACKEND, ungated: compensate}", "BACKEND, ungated: deny}"},
		{"backends.passthrough", "BACKEND, passthrough: [\"POST /*\"]}", "BACKEND, passthrough: [\"GET /custom/*\"]}"},
	}
	const backend = `backends: [{name: mem0, kind: letta, listen: "127.0.0.1:8081", upstream: "http://127.0.0.1:8000"`
	parse := func(profile, line string) *config.Config {
		text := "profile: " + profile + "\n"
		if !strings.Contains(line, "BACKEND") {
			text += backend + "}]\n" + line + "\n"
		} else {
			text += strings.Replace(line, "BACKEND", backend, 1) + "]\n"
		}
		c, err := config.Parse("memproxy.yaml", []byte(text), func(string) string { return "" })
		must.Do(t, err, line)
		return c
	}
	covered := map[string]bool{"profile": true, "identity.require": true} // below
	for _, c := range cases {
		covered[c.key] = true
		weak := parse("production", c.weak)
		_, err := weak.AllowedUnsafe("")
		line := "memproxy.yaml:3: "
		if strings.Contains(c.weak, "BACKEND") {
			line = "memproxy.yaml:2: "
		}
		if err == nil || !strings.Contains(err.Error(), config.UnsafeEnv+"="+c.key) || !strings.HasPrefix(err.Error(), line) {
			t.Errorf("%s: %v, want a refusal that names %s, at %s", c.weak, err, c.key, line)
		}
		expect.List(t, must.Get(weak.AllowedUnsafe("log.level,"+c.key))(t), []string{c.key}, c.weak, "allowed")
		expect.Len(t, must.Get(parse("production", c.fine).AllowedUnsafe(""))(t), 0, c.fine)
		expect.Len(t, must.Get(parse("development", c.weak).AllowedUnsafe(""))(t), 0, c.weak, "in development")
	}
	declared := directions()
	for _, s := range settings(t, "profile: production\n"+everything) {
		if (strings.Contains(declared[s.Name], ";") || s.Name == "backends.passthrough") && !covered[s.Name] && !strings.HasPrefix(s.Name, "memories.layers.") {
			t.Errorf("%s can weaken production and has no case here", s.Name)
		}
	}
	expect.ErrorHas(t, expect.Err(parse("production", "log: {level: info}").AllowedUnsafe("enfroce")), "enforce", "a misspelt name")
}

// Proves GOV-6, TRL-10: the development profile is limited to one machine.
func TestDevelopmentStaysOnTheMachine(t *testing.T) {
	for listen, fine := range map[string]bool{"127.0.0.1:8081": true, "localhost:8081": true, "[::1]:8081": true, ":8081": false, "0.0.0.0:8081": false, "10.1.2.3:8081": false, "mem0.internal:8081": false} {
		for _, profile := range []string{"", "profile: development\n"} {
			c := must.Get(config.Parse("f", []byte(fmt.Sprintf(profile+"backends: [{name: m, kind: mem0, listen: %q, upstream: \"http://127.0.0.1:1\"}]\n", listen)), func(string) string { return "" }))(t)
			if _, err := c.AllowedUnsafe(""); (err == nil) != fine {
				t.Errorf("%s: %v", listen, err)
			}
			expect.OK(t, expect.Err(c.AllowedUnsafe("profile")), listen)
		}
	}
}

// Proves GOV-6, TRL-1: in production, callers without a credential may write only where
// just processes of the machine connect, and elsewhere if that is allowed by name.
func TestAnonymousWritesStayOnTheMachine(t *testing.T) {
	const key = `{keys: [{sha256: "aa5ad5b0b1b1f4d5c0d1a1e9b7b1f4d5c0d1a1e9b7b1f4d5c0d1a1e9b7b1f4d5", id: "agent:dev"}]}`
	for _, tc := range []struct {
		listen, identity string
		fine             bool
	}{
		{"127.0.0.1:8081", "{require: false}", true}, {"127.0.0.1:8081", "{default: {id: demo}}", true},
		{":8081", "{require: false}", false}, {"0.0.0.0:8081", "{default: {id: demo}}", false}, {"10.1.2.3:8081", "{default: {id: demo, trust: authenticated}}", false},
		{":8081", key, true}, {":8081", "{require: true}", true},
	} {
		c := must.Get(config.Parse("f", []byte(fmt.Sprintf("profile: production\nbackends: [{name: m, kind: mem0, listen: %q, upstream: \"http://127.0.0.1:1\"}]\nidentity: %s\n", tc.listen, tc.identity)), func(string) string { return "" }))(t)
		if _, err := c.AllowedUnsafe(""); (err == nil) != tc.fine || err != nil && !strings.Contains(err.Error(), config.UnsafeEnv+"=identity.require") {
			t.Errorf("%s at %s: %v", tc.identity, tc.listen, err)
		}
		expect.Equal(t, len(must.Get(c.AllowedUnsafe("identity.require"))(t, tc.identity, tc.listen)) == 0, tc.fine, tc.identity, tc.listen)
		c.BehindEnvoy(false) // Envoy may listen anywhere
		if _, err := c.AllowedUnsafe(""); (err == nil) != (tc.identity == key || tc.identity == "{require: true}") {
			t.Errorf("%s behind Envoy: %v", tc.identity, err)
		}
	}
}

// An edit that is valid as a whole is checked with the settings that stay as they are until
// a restart, and with what the process does besides its file.
func TestEditsAreCheckedWithWhatStaysInForce(t *testing.T) {
	parsed := func(listen, rest string) *config.Config {
		t.Helper()
		return must.Get(config.Parse("f.yaml", []byte("profile: production\nbackends: [{name: a, kind: mem0, listen: '"+listen+"', upstream: 'https://a.example'}]\n"+rest), func(string) string { return "" }))(t)
	}
	const open, sum = "identity: {default: {id: demo}}\n", "aa5ad5b0b1b1f4d5c0d1a1e9b7b1f4d5c0d1a1e9b7b1f4d5c0d1a1e9b7b1f4d5"
	weakened := func(was, next *config.Config) string {
		t.Helper()
		adopted, _, err := was.Adopt(next)
		must.Do(t, err)
		if _, err = adopted.AllowedUnsafe(""); err == nil {
			return ""
		}
		return err.Error()
	}
	expect.Equal(t, weakened(parsed("127.0.0.1:1", ""), parsed("127.0.0.1:1", open)), "")
	expect.Text(t, weakened(parsed(":1", ""), parsed("127.0.0.1:1", open))).Has("listens on :1, which other hosts reach")

	envoy, edited := parsed("127.0.0.1:1", ""), parsed("127.0.0.1:1", open)
	envoy.BehindEnvoy(false)
	expect.Text(t, weakened(envoy, edited)).Has("every client of Envoy is served")
	_, err := edited.AllowedUnsafe("")
	expect.Error(t, err, "the same edit for a sidecar behind Envoy")
	_, restart, err := envoy.Adopt(parsed("127.0.0.1:1", ""))
	expect.OK(t, err)
	expect.Len(t, restart, 0, "settings that need a restart after no edit")

	reviewer := parsed(":1", "review: {reviewers: [{id: ann, sha256: "+sum+"}]}\n")
	_, _, err = reviewer.Adopt(parsed(":1", "identity: {keys: [{sha256: "+sum+", id: dev}]}\n"))
	expect.Text(t, fmt.Sprint(err)).Has(`the token is the key of caller "dev"`)
}

// Proves TRL-10: the effective profile has each control with its status, value and
// origin.
func TestEffectiveProfile(t *testing.T) {
	text := "profile: production\nscreening: {enabled: false}\nanswers:\n  headers: drop\n" + everything[:strings.Index(everything, "screening:")]
	got := settings(t, text)
	for path, want := range map[string]config.Setting{
		"screening.enabled":               {Value: "false", Status: config.StatusOff, From: "memproxy.yaml:2"},
		"answers.headers":                 {Value: "drop", Status: config.StatusOn, From: "memproxy.yaml:4"},
		"answers.unclaimed":               {Value: "drop", Status: config.StatusOn, From: "profile production"},
		"sessions.max_rejections":         {Value: "3", Status: config.StatusOn, From: "default"},
		"budgets.default.writes_per_hour": {Value: "100", Status: config.StatusOn, From: "default"},
		"identity.keys[agent:dev].users":  {Value: "ann", Status: config.StatusOn, From: "memproxy.yaml:9"},
		"identity.spiffe.rules[/a].users": {Value: "*", Status: config.StatusOn, From: "default"},
		"backends[mem0].ungated":          {Value: "deny", Status: config.StatusOn, From: "profile production"},
		"memories.quiet":                  {Value: "7d", Status: config.StatusOn, From: "default"},
		"screening.judge":                 {Value: "", Status: config.StatusOff, From: "default"},
		"backends[mem0].limits.body":      {Value: "1048576", Status: config.StatusOn, From: "default"},
		"backends[mem0].timeouts.run":     {Value: "30m0s", Status: config.StatusOn, From: "default"},
		"limits.connections":              {Value: "2048", Status: config.StatusOn, From: "default"},
	} {
		if s := got[path]; s.Value != want.Value || s.Status != want.Status || s.From != want.From {
			t.Errorf("%s is %q, %s, from %s; want %q, %s, from %s", path, s.Value, s.Status, s.From, want.Value, want.Status, want.From)
		}
	}
	for path, want := range map[string][2]string{
		"identity.require":               {config.StatusOff, ""},
		"memories.never_refuse":          {config.StatusOff, "strictest"},
		"memories.rewrite":               {config.StatusOff, "strictest"},
		"memories.new.configured":        {config.StatusOff, ""},
		"identity.keys[agent:dev].users": {config.StatusOn, ""}, // the user is named "off"
	} {
		loosened := strings.NewReplacer("require: true", "require: false", "[ann]", "[off]", "memories: {", "memories: {new: {configured: false}, ").Replace(everything)
		if s := settings(t, loosened)[path]; s.Status != want[0] || s.Strictest() != (want[1] != "") {
			t.Errorf("%s: %s is %s, strictest %v", path, s.Value, s.Status, s.Strictest())
		}
	}
	for _, s := range settings(t, "enforce: false\n"+text[strings.Index(text, "screening"):]) {
		if s.Status == config.StatusOn && !strings.HasPrefix(s.Name, "limits.") && !strings.HasPrefix(s.Name, "audit.") {
			t.Errorf("in shadow mode %s is %s", s.Path, s.Status)
		}
	}
}

// Proves GOV-6: an edit that loosens a control is reported, and one that tightens it is
// not.
func TestLooserEdits(t *testing.T) {
	parse := func(text string) (out []config.Setting) {
		for _, s := range settings(t, text) {
			out = append(out, s)
		}
		return out
	}
	edit := func(old, new string) (looser, tighter []string) {
		a, b := parse(everything), parse(strings.Replace(everything, old, new, 1))
		return config.Loosened(config.Snapshot(a), b), config.Loosened(config.Snapshot(b), a)
	}
	for _, c := range []struct{ old, new, path string }{
		{"state: ./s\n", "state: ./s\nprofile: development\nenforce: false\n", "enforce"},
		{"users: [ann]", "users: [ann, bob]", "identity.keys[agent:dev].users"},
		{"users: [ann], ", "", "identity.keys[agent:dev].users"},
		{"acts_as: [dev]", "acts_as: \"*\"", "identity.keys[agent:dev].acts_as"},
		{"{writes_per_hour: 5, writes_total: 50}", "{writes_per_hour: 6, writes_total: 50}", "budgets.overrides[agent:dev].writes_per_hour"},
		{"\"*\": {writes_per_hour: 5}, acme", "acme", "budgets.tenants[*].writes_per_hour"},
		{", writes_total: 9}}, namespaces", "}}, namespaces", "budgets.tenants[acme].writes_total"},
		{", writes_total: 50}", "}", "budgets.overrides[agent:dev].writes_total"},
		{"{writes_per_hour: 5, writes_total: 50}", "{writes_total: 50}", "budgets.overrides[agent:dev].writes_per_hour"},
		{"{writes_per_hour: 5, writes_total: 9}", "{writes_total: 9}", "budgets.tenants[acme].writes_per_hour"},
		{"anonymous: 0.2", "anonymous: 0.3", "confidence.principal[anonymous]"},
		{"hostile: high", "hostile: low", "screening.sources[hostile]"},
		{"ttl: {default: 30d}", "ttl: {default: 31d}", "memories.ttl[default]"},
		{"ttl: {default: 30d}", "ttl: {default: 0}", "memories.ttl[default]"},
		{"ttl: {default: 30d}", "ttl: {persona: 0}", "memories.ttl[default]"},
		{"ttl: {default: 30d}", "ttl: {default: 30d, persona: 0}", "memories.ttl[persona]"},
		{"ttl: {default: 30d}", "ttl: {default: 30d, \"source:hostile\": 31d}", "memories.ttl[source:hostile]"},
		{"\"*\": {writes_per_hour: 5}, acme", "\"*\": {writes_per_hour: 5}, globex: {writes_per_hour: 6}, acme", "budgets.tenants[globex].writes_per_hour"},
		{"state: ./s\n", "state: ./s\nlimits: {connections: 2049}\n", "limits.connections"},
		{"hostile: 0.6}", "hostile: 0.7}", "screening.similar.thresholds.hostile"},
		{"  judge: {url: \"http://127.0.0.1:1\", model: m}\n", "", "screening.judge"},
		{"crm: verified", "crm: verified, moltbook: untrusted", "sources.names[moltbook]"},
	} {
		looser, tighter := edit(c.old, c.new)
		expect.Equal(t, slices.ContainsFunc(looser, func(s string) bool { return strings.HasPrefix(s, c.path+":") }), true, c.old, "->", c.new, "looser", looser, c.path)
		expect.Len(t, tighter, 0, c.new, "->", c.old, "the other way round is looser by")
	}
	for _, names := range []string{"moltbook: hostile", "shop: hostile", "\"*\": hostile", "\"email:ann\": untrusted"} {
		if looser, _ := edit("crm: verified", "crm: verified, "+names); len(looser) > 0 {
			t.Errorf("%s: looser by %q", names, looser)
		}
	}
	before := config.Snapshot(parse("profile: production\n" + everything))
	delete(before, "sources.names[*]") // as stored by an older version
	if looser := config.Loosened(before, parse("profile: production\n"+everything)); len(looser) > 0 {
		t.Errorf("an upgrade is looser by %q", looser)
	}
}

// Proves SYN-9, TRL-9: by default governed fields expire after 30 days, and production
// holds writes of unknown callers for review.
func TestDefaultsOfMemories(t *testing.T) {
	parse := func(memories string) *config.Config {
		return must.Get(config.Parse("f", []byte(memories+"\n"+everything[:strings.Index(everything, "identity:")]), func(string) string { return "" }))(t)
	}
	days := func(c *config.Config, field string) int {
		return int(c.Memories.Lifetime(field, "semantic", "").Hours() / 24)
	}
	c := parse("profile: production")
	for field, want := range map[string]int{"learnings": 30, "preferences": 30, "gotchas": 30, "conventions": 30, "decisions": 30, "human": 0, "notes": 0} {
		expect.Equal(t, days(c, field), want, field)
	}
	if !slices.Equal(c.Memories.Pending, []string{"anonymous", "new"}) || parse("profile: development").Memories.Pending != nil {
		t.Errorf("pending: %q in production", c.Memories.Pending)
	}
	c = parse("memories: {ttl: {gotchas: 7d, \"field:decisions\": 0}}")
	if days(c, "gotchas") != 7 || days(c, "decisions") != 0 || days(c, "learnings") != 30 {
		t.Errorf("what the file says: %v", c.Memories.TTL)
	}
	if c = parse("memories: {ttl: {default: 90d}}"); days(c, "learnings") != 90 {
		t.Errorf("beside a default: %v", c.Memories.TTL)
	}
	if c = parse("memories: {ttl: {Default: 90d}}"); days(c, "learnings") != 90 {
		t.Errorf("beside a default in another spelling: %v", c.Memories.TTL)
	}
	for range 20 { // the order of a map must not decide
		text := "memories: {ttl: {gotchas: 0, \"field:gotchas\": 5d}}\n" + everything[:strings.Index(everything, "identity:")]
		_, err := config.Parse("f", []byte(text), func(string) string { return "" })
		expect.Error(t, err, "a field must have a name and be listed once")
	}
}
