package config_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const rightPlane = `fleet: north
tls: {cert: a, key: b, client_ca: c}
releases: /srv/releases
keys: ["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="]
sidecars:
  - {spiffe: "spiffe://example.org/ns/acme/sa/*", tenant: acme, labels: {env: [prod, test], region: "*"}}
`

func plane(text string) (*config.ControlPlane, error) {
	return config.ParseControlPlane("x", []byte(text), func(string) string { return "" })
}

// Each fault next to the file without faults.
// Proves CARD-9
func TestControlPlaneErrors(t *testing.T) {
	must.Get(plane(rightPlane))(t)
	for _, tc := range []struct{ name, old, new, want string }{
		{"an unknown key", "fleet:", "flet: x\nfleet:", `x:1: unknown key "flet"; did you mean "fleet"?`},
		{"no fleet", "fleet: north\n", "", "x:1: fleet is missing"},
		{"no keys", `keys: ["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="]`, "keys: []", "x:4: keys is empty"},
		{"half a key", "lrwIaaPcHURo=", "", "x:4: keys[0] is not an Ed25519 public key"},
		{"no sidecars", `  - {spiffe: "spiffe://example.org/ns/acme/sa/*", tenant: acme, labels: {env: [prod, test], region: "*"}}`, "  []", "sidecars is empty"},
		{"neither name nor SPIFFE id", `spiffe: "spiffe://example.org/ns/acme/sa/*", `, "", "x:6: a sidecar has either spiffe or common_name"},
		{"both", `tenant: acme`, "tenant: acme, common_name: x", "x:6: a sidecar has either spiffe or common_name"},
		{"not a SPIFFE id", `"spiffe://example.org`, `"https://example.org`, "x:6: spiffe must begin with spiffe://"},
		{"a label of numbers", "[prod, test]", "{a: b}", "x:6: sidecars[0].labels.env must be a name or a list of names"},
		{"a listener without a port", "fleet:", "listen: here\nfleet:", `x:1: listen "here" is not host:port`},
		{"one address twice", "fleet:", "admin: {listen: \"0.0.0.0:9902\"}\nfleet:", "x:1: 0.0.0.0:9902 is the address of the sidecars already"},
		{"stages that fall", "fleet:", "rollout: {stages: [{percent: 50}, {percent: 10}]}\nfleet:", "the stages must be in ascending order: 10 is not"},
		{"a share over 100", "fleet:", "rollout: {stages: [{percent: 101}]}\nfleet:", "at most 100"},
		{"a rise over 1", "fleet:", "rollout: {refused: 2}\nfleet:", "at most 1"},
	} {
		expect.ErrorHas(t, expect.Err(plane(strings.Replace(rightPlane, tc.old, tc.new, 1))), tc.want, tc.name)
	}
}

// Absent keys have the defaults of the tags.
func TestControlPlaneDefaults(t *testing.T) {
	c := must.Get(plane(rightPlane))(t)
	r := c.Rollout
	got := fmt.Sprint(c.Listen, c.Admin.Listen, c.Poll, c.Report, c.Progress, c.Log.Level, c.Log.Format, len(r.Stages), r.Stages[2].Percent, r.Stages[0].Hold, *r.Refused, *r.Errors, *r.Decisions, *r.Rejections)
	expect.Equal(t, got, "0.0.0.0:9902127.0.0.1:99031s 10s/srv/releasesinfojson3 100 10m0s 0.05 0.01 200 0")
	all := must.Get(plane(rightPlane + "rollout: {stages: []}\n"))(t)
	expect.Len(t, all.Rollout.Stages, 0, "all at once", all)
}

// Each fault of policy.control next to a section without faults.
func TestControlErrors(t *testing.T) {
	const right = `backends: [{name: m, kind: mem0, listen: "127.0.0.1:0", upstream: "http://x"}]
policy:
  control: {address: "c:1", fleet: north, keys: ["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="], tls: {cert: a, key: b, ca: c}, labels: {env: prod}}
`
	parse := func(text string) error {
		_, err := config.Parse("x", []byte(text), func(string) string { return "" })
		return err
	}
	must.Do(t, parse(right))
	for _, tc := range []struct{ name, old, new, want string }{
		{"an address without a port", `"c:1"`, `"c"`, `x:3: address "c" is not host:port`},
		{"an address without a host", `"c:1"`, `":1"`, `x:3: address ":1" is not host:port`},
		{"no key", `"11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="`, "", "x:3: keys is empty"},
		{"not a key", "11qY", "!!!!", "x:3: keys[0] is not an Ed25519 public key"},
		{"no certificate", "cert: a, ", "", "x:3: policy.control.tls.cert is missing"},
		{"a label called tenant", "env: prod", "tenant: prod", `x:3: the label "tenant" is not a plain name`},
		{"a label of two", "env: prod", `env: "a,b"`, `x:3: the label "env" is not a plain name`},
	} {
		expect.ErrorHas(t, parse(strings.Replace(right, tc.old, tc.new, 1)), tc.want, tc.name)
	}
}

const fleetDoc = "../docs/fleet.md"

// The table in the document matches the struct tags, key for key.
func TestFleetDocumentListsEveryKey(t *testing.T) {
	table := "| key | type | default | meaning |\n|---|---|---|---|\n"
	for _, r := range rows(reflect.TypeFor[config.ControlPlane](), "") {
		def := r.Default
		switch {
		case r.Required:
			def = "required"
		case def != "" && !strings.ContainsAny(def, " "):
			def = "`" + def + "`"
		}
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", r.path, typeName(r.field), def, r.Doc)
	}
	b := must.Get(os.ReadFile(fleetDoc))(t)
	const from, to = "<!-- keys: control -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(string(b), from)
	have, after, closed := strings.Cut(rest, to)
	switch {
	case !ok || !closed:
		t.Fatal("docs/fleet.md has no place for the keys")
	case *update:
		must.Do(t, os.WriteFile(fleetDoc, []byte(before+from+table+to+after), 0o644))
	case have != table:
		t.Error("docs/fleet.md is stale: run go test ./config -update")
	}
}

func FuzzControlPlane(f *testing.F) {
	f.Add(rightPlane)
	f.Add("rollout: {stages: [{percent: .nan}]}")
	f.Add("sidecars: [{labels: {a: null}}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := plane(text)
		if err == nil && (c.Fleet == "" || len(c.Keys) == 0 || len(c.Sidecars) == 0) {
			t.Errorf("%q: taken without what is required", text)
		}
	})
}
