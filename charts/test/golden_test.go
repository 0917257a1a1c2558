package charttest

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var update = flag.Bool("update", false, "write the golden renders anew")

const chartDir = "../memproxy"

var release = Release{Name: "memproxy", Namespace: "memproxy-system"}

func values(t testing.TB, name string) map[string]any {
	t.Helper()
	v := must.Get(chartutil.ReadValuesFile(filepath.Join("testdata", name+".yaml")))(t)
	return v
}

func render(t testing.TB, v map[string]any) string {
	t.Helper()
	out := must.Get(Render(chartDir, release, v))(t)
	return out
}

// documents decodes a stream of manifests.
func documents(t testing.TB, stream string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for dec := yaml.NewDecoder(strings.NewReader(stream)); ; {
		var doc map[string]any
		if err := dec.Decode(&doc); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatalf("%v\n%s", err, stream)
		}
		if doc != nil {
			out = append(out, doc)
		}
	}
}

// What the chart renders is reviewed in diffs. Proves CARD-8.
func TestGoldenRenders(t *testing.T) {
	for _, name := range []string{"least", "full"} {
		got := []byte(render(t, values(t, name)))
		documents(t, string(got))
		path := filepath.Join("testdata", name+".golden.yaml")
		if *update {
			must.Do(t, os.WriteFile(path, got, 0o644))
		}
		want := must.Get(os.ReadFile(path))(t)
		expect.Equal(t, bytes.Equal(got, want), true, name, "the render changed; review it and run with -update")
	}
}

func TestLint(t *testing.T) {
	for _, name := range []string{"least", "full"} {
		for _, m := range lint.All(chartDir, values(t, name), release.Namespace, true).Messages {
			expect.Equal(t, m.Severity <= support.InfoSev, true, name, m)
		}
	}
}

// Values that would open a way around the gate, or a chart that cannot work,
// are refused by name.
func TestRefusedValues(t *testing.T) {
	for _, c := range []struct{ name, values, want string }{
		{"nothing", `{}`, "backends is empty"},
		{"no namespace", `{namespaces: []}`, "namespaces is empty"},
		{"an unknown key", `{backend: []}`, "additional properties 'backend' not allowed"},
		{"an unknown kind", `{backends: [{name: a, kind: redis, port: 1, upstream: "http://x"}]}`, "kind"},
		{"a credential in the address", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://u:p@x"}]}`, "upstream"},
		{"one port twice", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x"}, {name: b, kind: mem0, port: 8081, upstream: "http://x"}]}`, "port 8081 is already used by a"},
		{"one name twice", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x"}, {name: a, kind: letta, port: 8083, upstream: "http://x"}]}`, "backend a: the name is already used"},
		{"a listener's name", `{backends: [{name: probes, kind: mem0, port: 8081, upstream: "http://x"}]}`, "backend probes: the name is already used"},
		{"nobody to identify", `{identity: {pod: {enabled: false}}}`, "could not identify any caller"},
		{"the review port", `{backends: [{name: a, kind: mem0, port: 9904, upstream: "http://x"}]}`, "sidecar.reviewPort"},
		{"two ports in one", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x"}], sidecar: {adminPort: 9904}}`, "sidecar.reviewPort"},
		{"the admin port", `{backends: [{name: a, kind: mem0, port: 9901, upstream: "http://x"}]}`, "sidecar.adminPort"},
		{"a policy without a credential", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x", pods: {namespace: n, selector: {a: b}, port: 1}}]}`, "because they share its pod"},
		{"a shared ledger without its key", `{postgres: {existingSecret: x}, keys: {existingSecret: k, files: [stamp.key]}}`, "vault.key"},
		{"a token without an issuer", `{identity: {token: {enabled: true}}}`, "issuer"},
		{"a certificate without its CA", `{certificates: {mode: existing, existingSecret: x}}`, "caBundle"},
		{"a fleet without a name", `{control: {enabled: true, tlsSecret: a, releasesClaim: b, sidecars: [{}]}}`, "fleet requires name and keys"},
		{"a fleet without a control plane", `{fleet: {enabled: true, name: f, keys: ["JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="], clientSecret: c}}`, "control.enabled is false"},
		{"sidecars without a certificate", `{fleet: {enabled: true, name: f, keys: ["JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="], address: "c:1"}}`, "no certificate"},
		{"shadow mode that the sidecar does not start with", `{config: {enforce: false}}`, "MEMPROXY_ALLOW_UNSAFE"},
		{"a digest that is none", `{image: {digest: latest}}`, "digest"},
		{"one variable for two backends", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x"}, {name: b, kind: mem0, port: 8082, upstream: "http://x"}]}`, "MEM0_BASE_URL would be set for two backends"},
		{"a host that the pod could be", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://mem0:8000", credential: {secretName: s, key: k}}]}`, "to itself and receive"},
		{"a host that the pod's namespace could have", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://mem0.memory/v1", credential: {secretName: s, key: k}}]}`, "to itself and receive"},
		{"a host that the pod could be, as an absolute name", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://mem0.:8000", credential: {secretName: s, key: k}}]}`, "to itself and receive"},
		{"a host that the pod's namespace could have, as an absolute name", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://mem0.memory./v1", credential: {secretName: s, key: k}}]}`, "to itself and receive"},
		{"the webhook's own namespace", `{namespaces: [agents, memproxy-system]}`, "memproxy-system must not be listed"},
		{"the cluster's namespace", `{namespaces: [kube-system]}`, "kube-system must not be listed"},
		{"the webhook's ports in one", `{injector: {port: 9902}}`, "injector.adminPort"},
		{"the control plane's ports in one", `{fleet: {name: f, keys: ["JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="]}, control: {enabled: true, tlsSecret: a, releasesClaim: b, sidecars: [{}], port: 9903}}`, "control.adminPort"},
		{"a size that is none", `{sidecar: {state: {sizeLimit: big}}}`, "sizeLimit"},
		{"a volume without a size", `{sidecar: {state: {ephemeralVolume: {storageClassName: fast}}}}`, "size"},
		{"probes where nobody asks", `{config: {admin: {probes: ":9999"}}}`, "set sidecar.adminPort"},
		{"a backend's listener elsewhere", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x", extra: {listen: ":9999"}}]}`, "backend a: extra.listen"},
		{"a directory that cannot be written to", `{config: {state: /data}}`, "config.state must not be set"},
		{"a backend's address elsewhere", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x", extra: {upstream: "http://y"}}]}`, "extra.upstream must not be set"},
		{"a credential in the values", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x", extra: {credential: secret}}]}`, "extra.credential must not be set"},
		{"a backend's other name", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x", extra: {name: b}}]}`, "extra.name must not be set"},
		{"a key of the sidecar's that there is none of", `{config: {audit: {max_byte: 1}}}`, "additional properties 'max_byte' not allowed"},
		{"a value of the sidecar's that is none", `{config: {log: {level: loud}}}`, "/config/log/level"},
		{"a key of a backend's that there is none of", `{backends: [{name: a, kind: mem0, port: 8081, upstream: "http://x", extra: {limit: {body: 1}}}]}`, "additional properties 'limit' not allowed"},
		{"other backends", `{config: {backends: []}}`, "set backends"},
		{"a control plane where nobody asks", `{control: {config: {listen: ":9999"}}}`, "set control.port"},
		{"its probes where nobody asks", `{control: {config: {admin: {listen: ":9999"}}}}`, "set control.adminPort"},
		{"a CA that is no PEM", `{certificates: {mode: existing, existingSecret: x, caBundle: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t}}`, "caBundle"},
		{"a quantity that is none", `{sidecar: {resources: {limits: {memory: lots}}}}`, "resources"},
		{"a size with a suffix that is none", `{sidecar: {state: {sizeLimit: 1K}}}`, "sizeLimit"},
		{"a resource that is none", `{injector: {resources: {requests: {cpus: 1}}}}`, "cpus"},
		{"a key of the fleet that is none", `{fleet: {name: f, keys: [k]}}`, "keys"},
		{"more log than room", `{sidecar: {state: {sizeLimit: 256Mi}}, config: {audit: {max_bytes: 536870912}}}`, "config.audit.max_bytes is 536870912 and sidecar.state.sizeLimit is 256Mi"},
		{"more log than room on a volume", `{sidecar: {state: {ephemeralVolume: {size: 1G}}}, config: {audit: {max_bytes: 750000001}}}`, "sidecar.state.ephemeralVolume.size is 1G"},
		{"no room for the log", `{sidecar: {state: {sizeLimit: 1.9Mi}}}`, "set at least 2Mi"},
		{"root", `{sidecar: {runAsUser: 0}}`, "runAsUser"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := values(t, "least")
			if c.name == "nothing" {
				v = map[string]any{}
			}
			var more map[string]any
			must.Do(t, yaml.Unmarshal([]byte(c.values), &more))
			for k, x := range more {
				v[k] = x
			}
			_, err := Render(chartDir, release, v)
			expect.ErrorHas(t, err, c.want)
		})
	}
	// And next to them, what must not be refused: a policy whose author says
	// that the backend takes no credential, and hosts that no pod could be.
	v := values(t, "least")
	for _, upstream := range []string{"https://mem0", "http://10.0.0.9:8000", "http://[fd00::9]:8000", "http://mem0.memory.svc:8000", "http://mem0.memory.svc.:8000"} {
		v["backends"] = []any{map[string]any{"name": "a", "kind": "mem0", "port": 8081, "upstream": upstream, "credential": map[string]any{"secretName": "s", "key": "k"}}}
		render(t, v)
	}
	v["backends"] = []any{map[string]any{"name": "a", "kind": "mem0", "port": 8081, "upstream": "http://x",
		"pods": map[string]any{"namespace": "n", "selector": map[string]any{"a": "b"}, "port": 1, "allowWithoutCredential": true}}}
	render(t, v)
}

// The audit log follows the room that the state has: otherwise the pod would be evicted, or
// nothing would get through. Proves CARD-8.
func TestAuditLogFitsTheState(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{`{}`, "max_bytes: 536870912"},
		{`{config: {audit: {retention: 7d}}}`, "max_bytes: 536870912"},
		{`{sidecar: {state: {sizeLimit: 64Mi}}}`, "max_bytes: 33554432"},
		{`{sidecar: {state: {sizeLimit: 1.5G}}}`, "max_bytes: 750000000"},
		{`{sidecar: {state: {sizeLimit: "4194304"}}}`, "max_bytes: 2097152"},
		{`{sidecar: {state: {sizeLimit: 4096Ki}}}`, "max_bytes: 2097152"},
		{`{sidecar: {state: {sizeLimit: 4096k}}}`, "max_bytes: 2048000"},
		{`{sidecar: {state: {ephemeralVolume: {size: 2Ti}}}}`, "max_bytes: 1099511627776"},
		{`{sidecar: {state: {sizeLimit: 1G}}, config: {audit: {max_bytes: 750000000}}}`, "max_bytes: 750000000"},
	} {
		var v map[string]any
		must.Do(t, yaml.Unmarshal([]byte(c.values), &v))
		for k, x := range values(t, "least") {
			v[k] = x
		}
		if out := render(t, v); strings.Count(out, c.want+"\n") != strings.Count(out, "max_bytes:") || !strings.Contains(out, c.want) {
			t.Errorf("%s: want %s in\n%s", c.values, c.want, out)
		}
	}
}

// A chart that refuses webhooks includes what the webhook would put in.
func TestIncludedIsInjected(t *testing.T) {
	sub := must.Get(loader.Load(chartDir))(t)
	parent := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: "v2", Name: "agent", Version: "1.0.0"},
		Templates: []*chart.File{{Name: "templates/pod.yaml", Data: []byte(`apiVersion: v1
kind: Pod
metadata:
  name: agent
  labels: {{- include "memproxy.podLabels" .Subcharts.memproxy | nindent 4 }}
  annotations: {{- include "memproxy.podAnnotations" .Subcharts.memproxy | nindent 4 }}
spec:
  initContainers: {{- include "memproxy.initContainers" .Subcharts.memproxy | nindent 4 }}
  containers:
    - name: agent
      image: agent
      env: {{- include "memproxy.env" .Subcharts.memproxy | nindent 8 }}
      volumeMounts: {{- include "memproxy.volumeMounts" .Subcharts.memproxy | nindent 8 }}
  volumes: {{- include "memproxy.volumes" .Subcharts.memproxy | nindent 4 }}
`)}},
	}
	parent.AddDependency(sub)
	v := values(t, "full")
	v["injector"] = map[string]any{"enabled": false}
	v["control"] = map[string]any{"enabled": false}
	v["fleet"].(map[string]any)["address"] = "memproxy-control.memproxy-system.svc:18443"
	out := must.Get(RenderChart(parent, release, map[string]any{"memproxy": v}))(t)
	var pod map[string]any
	for _, doc := range documents(t, out) {
		switch doc["kind"] {
		case "Pod":
			pod = doc
		case "MutatingWebhookConfiguration", "Deployment":
			t.Errorf("a %v is rendered, and nobody asked", doc["kind"])
		}
	}
	compareWithInjection(t, pod)
}

// Where the chart installs no webhook, none is away. Where it does not have the webhook
// scraped, nothing tells whether it is away. Proves CARD-10.
func TestAlertsAreOfWhatIsInstalled(t *testing.T) {
	for _, c := range []struct{ enabled, scraped bool }{{true, true}, {true, false}, {false, true}} {
		v, installed := values(t, "full"), c.enabled && c.scraped
		v["injector"].(map[string]any)["enabled"] = c.enabled
		v["monitoring"].(map[string]any)["serviceMonitor"] = map[string]any{"enabled": c.scraped}
		rules := find(t, documents(t, render(t, v)), "PrometheusRule", "")
		text := must.Get(yaml.Marshal(rules["spec"]))(t)
		expect.Equal(t, strings.Contains(string(text), "MemproxyInjectorAway"), installed, c, "MemproxyInjectorAway is there")
		expect.Text(t, string(text), c, "the sidecar's alerts are not there").Has("MemproxyFailsClosed")
	}
}
