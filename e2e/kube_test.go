//go:build e2e && e2ekube

package e2e

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
)

var updatePods = flag.Bool("update-kube", false, "write the accepted pod anew")

// installation is the chart applied to a real API server, with its webhook
// running.
type installation struct {
	*cluster
	binary  string
	webhook *process
	backend *keyedBackend
	ports   map[string]string // of this run, by what stands for them in golden files
}

// keyedBackend is the embedded Mem0 behind a key, as a backend ought to be.
type keyedBackend struct {
	http.Handler
	mu   sync.Mutex
	keys []string
}

const backendKey = "m0-only-the-sidecar-has-this"

func (k *keyedBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("X-Api-Key")
	k.mu.Lock()
	k.keys = append(k.keys, key)
	k.mu.Unlock()
	if key != backendKey {
		http.Error(w, `{"detail":"no"}`, http.StatusUnauthorized)
		return
	}
	k.Handler.ServeHTTP(w, r)
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(addr)
	must.Do(t, err)
	return p
}

func yamlObject(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	must.Do(t, yaml.Unmarshal([]byte(text), &v), text)
	return v
}

const valuesText = `
image: {repository: registry.example/memproxy, tag: v1}
backends:
  - name: mem0
    kind: mem0
    port: MEM0
    upstream: UPSTREAM
    credential: {secretName: mem0-credential, key: key, as: x-api-key}
    pods: {namespace: memory, selector: {app: mem0}, port: 8000}
namespaces: [agents]
identity:
  pod: {actsAs: [support]}
  token: {enabled: true, issuer: "ISSUER", inCluster: true}
keys: {existingSecret: memproxy-keys}
sidecar: {adminPort: ADMIN}
injector: {url: "HOOK"}
certificates: {mode: existing, existingSecret: injector-tls}
fleet: {name: test, keys: ["JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="]}
control: {enabled: true, tlsSecret: control-tls, releasesClaim: releases, sidecars: [{spiffe: "spiffe://test.example/*", tenant: "*"}]}
`

func install(t *testing.T) *installation {
	t.Helper()
	in := &installation{cluster: startCluster(t), ports: map[string]string{}}
	in.binary = filepath.Join(t.TempDir(), "memproxy")
	build := exec.Command("go", "build", "-trimpath", "-o", in.binary, "github.com/memproxy/memproxy/cmd/memproxy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	engine := must.Get(embedded.New(embedded.Options{}))(t)
	in.backend = &keyedBackend{Handler: engine}
	up := httptest.NewServer(in.backend)
	t.Cleanup(up.Close)

	hook := freeport.Addr(t)
	mem0, admin := portOf(t, freeport.Addr(t)), portOf(t, freeport.Addr(t))
	in.ports["MEM0"], in.ports["ADMIN"] = mem0, admin
	values := yamlObject(t, strings.NewReplacer("MEM0", mem0, "ADMIN", admin, "UPSTREAM", up.URL, "ISSUER", in.url, "HOOK", "https://"+hook).Replace(valuesText))
	values["certificates"].(map[string]any)["caBundle"] = string(in.ca.pem)

	namespace := func(name, labels string) {
		in.create(yamlObject(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {%s}}}", name, labels)))
	}
	namespace("memproxy-system", "pod-security.kubernetes.io/enforce: restricted")
	namespace("agents", "memproxy.io/injection: enabled, pod-security.kubernetes.io/enforce: restricted")
	namespace("memory", "")
	namespace("elsewhere", "pod-security.kubernetes.io/enforce: restricted")
	for _, doc := range in.render(values) {
		in.create(doc)
	}
	for _, ns := range []string{"agents", "elsewhere"} { // by a controller, in a whole cluster
		in.create(yamlObject(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: support, namespace: "+ns+"}}"))
		root := yamlObject(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt, namespace: "+ns+"}}")
		root["data"] = map[string]any{"ca.crt": string(in.ca.pem)}
		in.create(root)
	}
	in.secret("mem0-credential", "key", []byte(backendKey))
	keys := t.TempDir()
	if out, code := run(t, nil, in.binary, "keygen", "--out", filepath.Join(keys, "k")); code != 0 {
		t.Fatal(out)
	}
	stamp := must.Get(os.ReadFile(filepath.Join(keys, "k", "stamp.key")))(t)
	in.secret("memproxy-keys", "stamp.key", stamp)
	in.startWebhook(hook)
	return in
}

func (in *installation) secret(name, key string, value []byte) {
	in.t.Helper()
	s := yamlObject(in.t, "{apiVersion: v1, kind: Secret, metadata: {name: "+name+", namespace: agents}}")
	s["data"] = map[string]any{key: base64.StdEncoding.EncodeToString(value)}
	in.create(s)
}

// render is helm template, by the chart's own test module.
func (in *installation) render(values map[string]any) (docs []map[string]any) {
	in.t.Helper()
	b := must.Get(yaml.Marshal(values))(in.t)
	path := filepath.Join(in.t.TempDir(), "values.yaml")
	writeFile(in.t, path, b)
	cmd := exec.Command("go", "run", "./cmd/render", "-values", path)
	cmd.Dir = "../charts/test"
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	must.Do(in.t, err, errs.String())
	for _, text := range strings.Split(string(out), "\n---\n") {
		docs = append(docs, yamlObject(in.t, text))
	}
	return docs
}

// startWebhook runs memproxy inject with the file that the API server holds.
func (in *installation) startWebhook(addr string) {
	in.t.Helper()
	conf := textOf(in.get("ConfigMap", "memproxy-system", "memproxy-injector"), "data", "inject.yaml")
	cert, key := in.ca.issue(in.t, "webhook")
	conf = strings.NewReplacer(`":8443"`, addr, `":9902"`, freeport.Addr(in.t),
		"/etc/memproxy/tls/tls.crt", cert, "/etc/memproxy/tls/tls.key", key).Replace(conf)
	path := filepath.Join(in.t.TempDir(), "inject.yaml")
	writeFile(in.t, path, []byte(conf))
	in.webhook = start(in.t, in.binary, "inject", "--config", path)
	waitFor(in.t, "the webhook listens", accepts(addr))
}

// restrictedContext is what the restricted Pod Security Standard asks of a container.
const restrictedContext = "securityContext: {runAsNonRoot: true, runAsUser: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}"

// agentPod is an agent's pod; more is put into its spec, meta into its metadata.
func agentPod(t *testing.T, namespace, name, meta, more string) map[string]any {
	t.Helper()
	p := yamlObject(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s %s}
spec:
  serviceAccountName: support
  containers: [{name: agent, image: "agent:v1", %s, env: [{name: MEM0_BASE_URL, value: "http://mem0.memory:8000"}]}]
`, name, namespace, meta, restrictedContext))
	for k, v := range yamlObject(t, "{"+more+"}") {
		p["spec"].(map[string]any)[k] = v
	}
	return p
}

// TestKubeAcceptsTheInjectedPod applies the rendered chart to a real API
// server, creates pods, and looks at what it accepted; then it runs the sidecar
// as the accepted pod says. Proves CARD-8, TRL-1.
func TestKubeAcceptsTheInjectedPod(t *testing.T) {
	in := install(t)
	_, _, warnings := in.try(agentPod(t, "agents", "agent", "", ""))
	expect.That(t, len(warnings) == 1 && strings.Contains(warnings[0], "MEM0_BASE_URL now leads to the sidecar"), "warnings: %q", warnings)
	accepted := in.get("Pod", "agents", "agent")
	in.compare(accepted, filepath.Join("kube", "testdata", "accepted.yaml"))
	t.Run("refused", in.refused)
	t.Run("runs", func(t *testing.T) { in.runs(t, accepted) })
	t.Run("away", in.away)
}

// compare holds the accepted pod against the reviewed one.
func (in *installation) compare(p map[string]any, path string) {
	in.t.Helper()
	meta := p["metadata"].(map[string]any)
	for _, k := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		delete(meta, k)
	}
	b := must.Get(yaml.Marshal(map[string]any{"metadata": meta, "spec": p["spec"]}))(in.t)
	got := string(b)
	for _, v := range itemsOf(p, "spec", "volumes") {
		if name := textOf(v, "name"); strings.HasPrefix(name, "kube-api-access-") {
			got = strings.ReplaceAll(got, name, "kube-api-access-xxxxx")
		}
	}
	for name, p := range in.ports {
		got = strings.ReplaceAll(got, p, name)
	}
	got = strings.ReplaceAll(got, textOf(meta, "annotations", "memproxy.io/config"), "CONFIG")
	if *updatePods {
		writeFile(in.t, path, []byte(got))
	}
	expect.Equal(in.t, got, string(must.Get(os.ReadFile(path))(in.t)), "the API server accepted")
}
