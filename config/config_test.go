package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/seldomgc"
)

const canary = "canary-8d1f"

func env(string) string { return "redis://:" + canary + "@127.0.0.1:6379/0" }

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	return must.Get(config.Parse("x.yaml", []byte(text), env))(t)
}

func valid(t testing.TB, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join("testdata", "valid", name+".yaml")))(t)
}

// Proves CARD-3, TRL-6
func TestDesignSample(t *testing.T) {
	c := parse(t, string(valid(t, "design")))
	dev := c.Identity.Keys[0].ToPrincipal()
	if dev.ID != "agent:dev" || dev.Kind != memproxy.KindAgent || dev.Trust != memproxy.TrustAuthenticated || dev.Tenant != "acme" || !reflect.DeepEqual(dev.Roles, []string{"dev"}) {
		t.Errorf("the listed principal is %+v", dev)
	}
	// Absent users, apps and runs are unlimited; absent agents are none.
	if !dev.ActsAs.Allows("dev") || dev.ActsAs.Allows("qa") || !dev.Users.All || !dev.Apps.All || !dev.Runs.All {
		t.Errorf("limits are %+v", dev)
	}
	if d := c.Identity.Default.ToPrincipal(); d.ActsAs.Allows("anyone") || d.Trust != memproxy.TrustAnonymous {
		t.Errorf("the default principal is %+v", d)
	}
	if *c.Identity.Require {
		t.Error("a default principal stands, and something is required all the same")
	}
	expect.Equal(t, c.Budgets.Redis.URL.Reveal(), "redis://127.0.0.1:6379/0", "redis is")
	if got := c.Budgets.Overrides["agent:ci"]; got.PerHour != 500 || got.Total != 0 {
		t.Errorf("the override is %+v: what it leaves out is inherited", got)
	}
	expect.Equal(t, c.Backends[0].Credential.Reveal(), env(""), "the credential was not put in")
}

// Listed names limit; only a star means all.
// Proves TRL-1
func TestLimitsOfPrincipals(t *testing.T) {
	c := parse(t, string(valid(t, "every_key")))
	p := c.Identity.Default.ToPrincipal()
	if !p.ActsAs.Allows("demo") || p.ActsAs.All || !p.Users.Allows("ann") || p.Users.Allows("bob") || p.Apps.Allows("shop") || p.Apps.All || !p.Runs.All {
		t.Errorf("limits are %+v", p)
	}
}

// Each default of a profile, and each overridden.
// Proves TRL-10
func TestProfiles(t *testing.T) {
	const who = "identity: {default: {id: demo}}\n"
	for _, tc := range []struct {
		text             string
		require          bool
		format, default_ string
	}{
		{"", false, "text", "anonymous"},
		{"profile: development\n", false, "text", "anonymous"},
		{"profile: production\n", true, "json", ""},
		{"profile: development\nidentity: {require: true}\n", true, "text", ""},
		{"profile: production\nidentity: {require: false}\n", false, "json", "anonymous"},
		{"profile: production\n" + who, false, "json", "demo"},
		{"profile: development\nlog: {format: json}\n", false, "json", "anonymous"},
		{"profile: production\nlog: {format: text}\n", true, "text", ""},
		{"profile: production\nenforce: false\n", true, "json", ""},
	} {
		c := parse(t, tc.text+backend)
		who := ""
		if d := c.Identity.Default; d != nil {
			who = d.ID
			expect.Equal(t, d.Trust, "anonymous", tc.text, "the default principal is", *d)
			expect.Equal(t, d.Kind, "anonymous", tc.text, "the default principal is", *d)
		}
		if *c.Identity.Require != tc.require || c.Log.Format != tc.format || who != tc.default_ {
			t.Errorf("%q: require %v, log %s, default %q", tc.text, *c.Identity.Require, c.Log.Format, who)
		}
		expect.Equal(t, c.Backends[0].Ungated, map[bool]string{true: "deny", false: "compensate"}[c.Profile == "production"], tc.text, "ungated runs")
		expect.Equal(t, *c.Enforce, (!strings.Contains(tc.text, "enforce: false")), tc.text, "enforce")
	}
}

// With several tenants, fewer callers see memories without an owner.
// Proves TRL-10, EDGE-3
func TestUnattributedByTenants(t *testing.T) {
	keys := func(tenants ...string) string {
		out := "identity:\n  keys:\n"
		for i, tenant := range tenants {
			out += fmt.Sprintf("    - {sha256: \"%064x\", id: a%d, tenant: %q}\n", i+1, i, tenant)
		}
		return out
	}
	for _, tc := range []struct{ text, want string }{
		{"", "visible"},
		{keys("acme", "acme"), "visible"},
		{keys("acme", "globex"), "named"},
		{keys("acme", "globex") + "ownership: {unattributed: hidden}\n", "hidden"},
		{keys("acme", "globex") + "ownership: {unattributed: visible}\n", "visible"},
		{"identity: {oidc: {issuer: \"https://i.example\", audience: a}}\n", "visible"},
		{"identity: {oidc: {issuer: \"https://i.example\", audience: a, claims: {tenant: org}}}\n", "named"},
		{"identity: {spiffe: {trust_domain: e.org, rules: [{path: /a, tenant: x}, {path: /b, tenant: y}]}}\n", "named"},
	} {
		expect.Equal(t, parse(t, tc.text+backend).Ownership.Unattributed, tc.want, tc.text)
	}
}

func TestReferences(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	must.Do(t, os.WriteFile(path, []byte(" k$${x}${HOME} \r\n"), 0o600))
	vars := map[string]string{"N": "7", "S": "false", "F": "0.5", "NULL": "null", "INJECT": "x\nenforce: false", "NEST": "${N}", "D": "2d", "LINE": "key\r\n"}
	c := must.Get(config.Parse("x.yaml", []byte(`enforce: "${S}"
state: a-${N}-$${N}-${NEST}
confidence: {unclaimed: "${F}"}
budgets: {default: {writes_per_hour: "${N}"}}
audit: {retention: "${D}"}
telemetry: {service: "${NULL}", otlp: "http://c", headers: {authorization: "Bearer ${LINE}"}}
policy: {dir: "${INJECT}"}
backends:
  - {name: mem0, kind: mem0, listen: 127.0.0.1:8081, upstream: http://127.0.0.1:8000, credential: "file:`+path+`"}
`), func(k string) string { return vars[k] }))(t)
	for _, tc := range []struct{ got, want any }{
		{*c.Enforce, false},
		{c.State, "a-7-${N}-${N}"}, // values are not expanded again
		{*c.Confidence.Unclaimed, 0.5},
		{c.Budgets.Default.PerHour, int64(7)},
		{c.Audit.Retention.Std(), 48 * time.Hour},
		{c.Telemetry.Service, "null"},
		{c.Telemetry.Headers["authorization"].Reveal(), "Bearer key"},
		{c.Policy.Dir, "x\nenforce: false"},
		{c.Backends[0].Credential.Reveal(), " k$${x}${HOME} "},
	} {
		expect.Equal(t, tc.got, tc.want)
	}
}

// No way of printing shows a secret, at any depth, and the value itself is kept.
func TestSecretsDoNotPrint(t *testing.T) {
	c := parse(t, string(valid(t, "every_key")))
	b := c.Backends[0]
	expect.Text(t, b.Credential.Reveal(), "the canary is not in the configuration").Has(canary)
	forms := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10.3s", "% x"} {
		for name, v := range map[string]any{"config": *c, "pointer": c, "backend": b, "secret": b.Credential, "redis": *c.Budgets.Redis, "headers": c.Telemetry.Headers} {
			forms[verb+" "+name] = fmt.Sprintf(verb, v)
		}
	}
	for name, marshal := range map[string]func(any) ([]byte, error){"json": json.Marshal, "yaml": yaml.Marshal} {
		out := must.Get(marshal(c))(t)
		expect.Text(t, string(out), name, "does not say that something is left out").Has("[redacted]")
		forms[name] = string(out)
	}
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"slog text": func(w *bytes.Buffer) slog.Handler { return slog.NewTextHandler(w, nil) },
		"slog json": func(w *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	} {
		var w bytes.Buffer
		slog.New(handler(&w)).Info("x", "config", c, "value", *c, "secret", b.Credential, "redis", c.Budgets.Redis)
		forms[name] = w.String()
	}
	for name, text := range forms {
		hex := fmt.Sprintf("%x", canary)
		expect.Text(t, strings.ToLower(text), name, "shows the secret", text).Lacks(canary, hex)
	}
	expect.Equal(t, fmt.Sprintf("%v|%+v", config.NewSecret(""), config.Secret{}), "|", "no secret prints as")
}

// A printed configuration can be parsed again and is equal, secrets aside.
func TestPrintedConfigurationIsAConfiguration(t *testing.T) {
	for _, name := range []string{"one_backend", "every_key"} {
		c := parse(t, string(valid(t, name)))
		out := must.Get(yaml.Marshal(c))(t)
		text := string(out)
		for _, of := range []string{"postgres://db", "http://hooks", "redis://127.0.0.1"} { // the ledger's comes first
			text = strings.Replace(text, "url: '[redacted]'", "url: "+of, 1)
		}
		text = strings.ReplaceAll(text, "key: '[redacted]'", "key: 0123456789abcdef")
		again, err := config.Parse("x.yaml", []byte(text), none)
		must.Do(t, err, name, out)
		twice, err := yaml.Marshal(again)
		must.Do(t, err, name, "printed, read and printed again")
		expect.Equal(t, string(twice), string(out), name, "printed, read and printed again")
	}
}

func TestDurations(t *testing.T) {
	for _, tc := range []struct {
		text, printed string
		want          time.Duration
	}{
		{"90d", "90d", 90 * 24 * time.Hour},
		{"0.5d", "12h0m0s", 12 * time.Hour},
		{"1h30m", "1h30m0s", 90 * time.Minute},
		{"48h", "2d", 48 * time.Hour},
		{"500ms", "500ms", 500 * time.Millisecond},
		{"0", "0s", 0},
		{"0d", "0s", 0},
		{"", "90d", 90 * 24 * time.Hour},
	} {
		c := parse(t, "audit: {retention: "+tc.text+"}\n"+backend)
		if got := c.Audit.Retention; got.Std() != tc.want || got.String() != tc.printed {
			t.Errorf("%q: %v, printed %s", tc.text, got.Std(), got)
		}
	}
	expect.Equal(t, parse(t, backend).Audit.Retention.String(), "90d", "without a word the log is kept for")
}

// Proves EDGE-3: in production two backends cannot share a store, since neither knows
// the other's writes, unless both serve the same single tenant.
func TestBackendsHaveStoresOfTheirOwn(t *testing.T) {
	const two = "profile: %s\nbackends:\n  - {name: a, kind: mem0, listen: 127.0.0.1:1, upstream: %s}\n  - {name: b, kind: mem0, listen: 127.0.0.1:2, upstream: %s}\n"
	for _, tc := range []struct {
		profile, a, b string
		fault         bool
	}{
		{"production", "http://127.0.0.1:9", "http://127.0.0.1:9", true},
		{"production", "http://127.0.0.1:9/", "http://localhost:9", true},
		{"production", "http://Mem0.example", "http://mem0.example:80/", true},
		{"production", "http://mem0.example", "https://mem0.example", false},
		{"production", "http://mem0.example/a", "http://mem0.example/b", false},
		{"production", "http://127.0.0.1:9", "http://127.0.0.1:8", false},
		{"production", "http://127.0.0.1:9, tenant: t", "http://127.0.0.1:9, tenant: t", false},
		{"production", "http://127.0.0.1:9, tenant: t", "http://127.0.0.1:9, tenant: u", true},
		{"production", "http://127.0.0.1:9, tenant: t", "http://127.0.0.1:9", true},
		{"development", "http://127.0.0.1:9", "http://127.0.0.1:9", false},
	} {
		_, err := config.Parse("x.yaml", []byte(fmt.Sprintf(two, tc.profile, tc.a, tc.b)), env)
		expect.Equal(t, err != nil && strings.Contains(err.Error(), "the same upstream"), tc.fault, tc, err)
	}
}

// Proves CARD-8: an upstream that is one of memproxy's own listeners is an error,
// however it is spelled; a neighbouring address is not.
func TestUpstreamIsNotItself(t *testing.T) {
	for _, tc := range []struct {
		listen, upstream string
		fault            bool
	}{
		{"127.0.0.1:8081", "http://127.0.0.1:8081", true},
		{"127.0.0.1:8081", "http://localhost:8081/base", true},
		{"localhost:8081", "http://[::1]:8081", true},
		{"127.0.0.1:80", "http://localhost", true},
		{"127.0.0.1:443", "https://127.0.0.1", true},
		{":8081", "http://127.0.0.2:8081", true},
		{"0.0.0.0:8081", "http://localhost:8081", true},
		{"[::]:8081", "http://[::1]:8081", true},
		{"127.0.0.1:8081", "http://0.0.0.0:8081", true},
		{"mem.example:8081", "http://MEM.example:8081", true},
		{"127.0.0.1:8081", "http://127.0.0.1:9901", true}, // the admin listener
		{"127.0.0.1:8081", "http://127.0.0.1:8082", false},
		{"127.0.0.1:8081", "https://localhost", false},
		{"127.0.0.1:8081", "http://127.0.0.2:8081", false},
		{":8081", "http://mem.example:8081", false},
		{"127.0.0.1:0", "http://127.0.0.1:0", false},
	} {
		text := fmt.Sprintf("backends:\n  - {name: a, kind: mem0, listen: %q, upstream: %q}\n", tc.listen, tc.upstream)
		_, err := config.Parse("x.yaml", []byte(text), env)
		expect.Equal(t, err != nil && strings.Contains(err.Error(), "a listener of memproxy itself"), tc.fault, tc, err)
	}
}

// Proves CARD-9, EDGE-3: valid but questionable settings cause warnings.
func TestWarnings(t *testing.T) {
	two := func(upstream string) string {
		return "backends:\n  - {name: a, kind: mem0, listen: 127.0.0.1:1, upstream: http://127.0.0.1:9}\n  - {name: b, kind: mem0, listen: 127.0.0.1:2, upstream: " + upstream + "}\n"
	}
	acme := func(key string) string {
		return "profile: production\n" + strings.Replace(backend, "kind: mem0", "kind: mem0, tenant: acme", 1) + "\nidentity: {keys: [{sha256: " + strings.Repeat("a", 64) + ", id: \"agent:dev\", " + key + "}]}\n"
	}
	for _, tc := range []struct{ text, want string }{
		{two("http://127.0.0.1:9"), "the same upstream"},
		{two("http://127.0.0.1:8"), ""},
		{backend, ""},
		{strings.Replace(backend, "127.0.0.1:8081", "localhost:8081", 1), ""},
		{strings.Replace(backend, "127.0.0.1:8081", "\"[::1]:8081\"", 1), ""},
		{strings.Replace(backend, "127.0.0.1:8081", "\":8081\"", 1), "without TLS"},
		{strings.Replace(backend, "127.0.0.1:8081", "0.0.0.0:8081", 1), "without TLS"},
		{"admin: {listen: \"0.0.0.0:9901\"}\n" + backend, "admin listener"},
		{"enforce: false\n" + backend, "enforce is false"},
		{"profile: production\nidentity: {default: {id: demo}}\n" + backend, "identified as demo"},
		{"profile: production\nidentity: {require: false}\n" + backend, "identified as anonymous"},
		{"identity: {default: {id: demo}}\n" + backend, ""},
		{"identity: {oidc: {issuer: \"http://i.example\", audience: a}}\n" + backend, "in the clear"},
		{"identity: {oidc: {issuer: \"http://127.0.0.1:99\", audience: a}}\n" + backend, ""},
		{acme("tenant: acme, roles: [dev, memproxy-owner]"), ""},
		{acme("tenant: acmee"), "no backend serves tenant acmee of agent:dev: "},
		{acme("kind: agent"), "no backend serves callers without a tenant, such as agent:dev: "},
		{acme("tenant: acme, roles: [memproxy-onwer]"), "memproxy-onwer of agent:dev"},
		{two("https://mem0.example"), "backend b has no credential"},
		{two("https://mem0.example, credential: k"), ""},
		{two("http://mem0.example/v1/"), "ends in /v1/,"},
		{two("http://mem0.example/v1/mem0"), ""},
	} {
		got := strings.Join(parse(t, tc.text).Warnings(), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: warnings %q, want %q", tc.text, got, tc.want)
		}
	}
	paths := must.Get(filepath.Glob("../policy/builtin/*.cedar"))(t)
	for _, path := range paths {
		for _, role := range regexp.MustCompile(`"(memproxy-[^"]*)"`).FindAllStringSubmatch(string(must.Get(os.ReadFile(path))(t)), -1) {
			expect.Len(t, parse(t, acme("tenant: acme, roles: ["+role[1]+"]")).Warnings(), 0, role[1], "of", path)
		}
	}
}

// FuzzParse: parsing any input terminates without a panic, in a configuration or in
// faults with line numbers.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"design", "every_key", "one_backend"} {
		f.Add(valid(f, name))
	}
	paths, _ := filepath.Glob("testdata/errors/*.txtar")
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil {
			f.Add(b)
		}
	}
	for _, s := range []string{"", "---", "a: *b", "? [a]\n: b", "&a [*a]", "backends: [{limits: {body: 0x10}}]", "%YAML 1.2\n---\n", "\"", "backends: !!seq"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte("file:")) {
			return // the fuzzer reads no files
		}
		c, err := config.Parse("f", text, func(string) string { return canary })
		if err == nil {
			expect.Equal(t, len(c.Backends) != 0, true, "no fault and nothing to proxy")
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			var n int
			if _, scan := fmt.Sscanf(line, "f:%d: ", &n); scan != nil || n < 1 {
				t.Errorf("a fault without its line: %q", line)
			}
		}
		expect.Text(t, err.Error(), "a fault shows a secret", err).Lacks(canary)
	})
}

func TestMain(m *testing.M) { seldomgc.Main(m) }

// What an edit changed is named by its path: also a secret, without its value, and what
// weakens nothing. Of a list whose entries have other names, the list.
func TestSettingsThatNeedARestartAreNamed(t *testing.T) {
	const conf = "backends: [{name: a, kind: mem0, listen: ':8080', upstream: 'https://a.example', credential: %s}]\n"
	parsed := func(text string) *config.Config {
		t.Helper()
		return must.Get(config.Parse("f.yaml", []byte(text), func(string) string { return "" }))(t)
	}
	was := parsed(fmt.Sprintf(conf, "one"))
	for text, want := range map[string][]string{
		fmt.Sprintf(conf, "one"): nil,
		fmt.Sprintf(conf, "two"): {"backends[a].credential"},
		strings.Replace(fmt.Sprintf(conf, "one"), "a.example", "b.example", 1): {"backends[a].upstream"},
		strings.Replace(fmt.Sprintf(conf, "one"), "name: a", "name: b", 1):     {"backends"},
		fmt.Sprintf(conf, "one") + "log: {level: warn}\n":                      {"log.level"},
	} {
		_, restart, err := was.Adopt(parsed(text))
		must.Do(t, err, text)
		expect.List(t, restart, want, text)
	}
}
