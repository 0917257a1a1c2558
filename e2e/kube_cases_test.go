//go:build e2e && e2ekube

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// refused: what would open a way around the gate is refused by the API server,
// and what stands next to it is not.
func (in *installation) refused(t *testing.T) {
	const restricted = ", " + restrictedContext
	for _, c := range []struct {
		name, namespace, meta, spec string
		want                        string // part of the refusal; "" is accepted
	}{
		{"plain", "agents", "", "", ""},
		{"host-network", "agents", "", "hostNetwork: true", "host's network"},
		{"opted-out", "agents", `, annotations: {memproxy.io/inject: "false"}`, "", ""},
		{"misspelt", "agents", `, annotations: {memproxy.io/inject: "off"}`, "", "memproxy.io/inject is"},
		{"takes-the-key", "agents", `, annotations: {memproxy.io/inject: "false"}`, `volumes: [{name: x, secret: {secretName: mem0-credential}}]`, "reserved for the sidecar"},
		{"false-sidecar", "agents", `, annotations: {memproxy.io/inject: "false"}`, `initContainers: [{name: memproxy, image: m, env: [{name: K, valueFrom: {secretKeyRef: {name: mem0-credential, key: key}}}]` + restricted + `}]`, "reserved for the sidecar"},
		{"takes-another", "agents", `, annotations: {memproxy.io/inject: "false"}`, `volumes: [{name: x, secret: {secretName: other}}]`, ""},
		{"own-names", "agents", "", `hostAliases: [{ip: 10.0.0.9, hostnames: [mem0.memory]}]`, "resolves names in its own way"},
		{"own-host-name", "agents", "", "hostnameOverride: mem0.memory.svc", "resolves names in its own way"},
		{"file-of-the-sidecar", "agents", "", `initContainers: [{name: i, image: m, env: [{name: K, valueFrom: {fileKeyRef: {volumeName: memproxy-state, path: env, key: K}}}]` + restricted + `}]`, "reserved for the sidecar"},
		{"gives-the-key-to-a-driver", "agents", `, annotations: {memproxy.io/inject: "false"}`, `volumes: [{name: x, csi: {driver: files.example, nodePublishSecretRef: {name: mem0-credential}}}]`, "reserved for the sidecar"},
		{"another-native-sidecar", "agents", "", `initContainers: [{name: logs, image: m, restartPolicy: Always` + restricted + `}]`, ""},
		{"own-context", "agents", "", `restartPolicy: Never, securityContext: {fsGroup: 2000, runAsUser: 2000, seccompProfile: {type: RuntimeDefault}}`, ""},
		{"takes-a-port", "agents", "", `initContainers: [{name: i, image: m, ports: [{containerPort: 9904}]` + restricted + `}]`, "uses port 9904, which is the sidecar's"},
		{"own-names-elsewhere", "elsewhere", "", `hostAliases: [{ip: 10.0.0.9, hostnames: [mem0.memory]}]`, ""},
		{"with-init", "agents", "", `initContainers: [{name: migrate, image: m` + restricted + `}]`, ""},
	} {
		code, out, _ := in.try(agentPod(t, c.namespace, c.name, c.meta, c.spec))
		message, _ := out["message"].(string)
		switch {
		case c.want == "" && code != http.StatusCreated:
			t.Errorf("%s: %d %s", c.name, code, message)
		case c.want != "" && (code != http.StatusForbidden || !strings.Contains(message, c.want)):
			t.Errorf("%s: %d %s, want a refusal with %q", c.name, code, message, c.want)
		}
	}
	first := itemsOf(in.get("Pod", "agents", "with-init"), "spec", "initContainers")[0]
	expect.That(t, first["name"] == "memproxy", "the first init container is %v", first["name"])
	expect.That(t, in.get("Pod", "elsewhere", "own-names-elsewhere")["metadata"].(map[string]any)["labels"] == nil, "a pod of a namespace without the label was touched")
	in.changed(t)
	for container, want := range map[string]int{"memproxy": http.StatusForbidden, "agent": http.StatusBadRequest} { // it runs on no node
		code, out, _ := in.do(http.MethodPost, in.path("Pod", "agents")+"/plain/exec?command=sh&stdout=true&container="+container, asJSON, nil)
		message, _ := out["message"].(string)
		expect.That(t, code == want && (want == http.StatusForbidden) == strings.Contains(message, "with the sidecar's Secrets"),
			"a command in %s: %d %s, want %d", container, code, message, want)
	}
}

// changed: neither can a pod that is there be changed into a way around.
func (in *installation) changed(t *testing.T) {
	const merge, strategic = "application/merge-patch+json", "application/strategic-merge-patch+json"
	patch := func(name, sub, contentType, body string) (int, string) {
		code, out, _ := in.do(http.MethodPatch, in.path("Pod", "agents")+"/"+name+sub, contentType, yamlObject(t, body))
		message, _ := out["message"].(string)
		return code, message
	}
	for _, c := range []struct{ name, pod, sub, contentType, body, want string }{
		{"a label to one without the sidecar", "opted-out", "", merge, `{metadata: {labels: {memproxy.io/injected: "true"}}}`, "the sidecar is not"},
		{"another label", "opted-out", "", merge, `{metadata: {labels: {team: x}}}`, ""},
		{"another image for the sidecar", "plain", "", strategic, `{spec: {initContainers: [{name: memproxy, image: "evil:v1"}]}}`, "its image differs"},
		{"another image for the agent", "plain", "", strategic, `{spec: {containers: [{name: agent, image: "agent:v2"}]}}`, ""},
		{"a debugger in the sidecar", "plain", "/ephemeralcontainers", strategic, `{spec: {ephemeralContainers: [{name: d1, image: d, targetContainerName: memproxy, ` + restrictedContext + `}]}}`, "the sidecar's processes"},
		{"a debugger that mounts the key", "plain", "/ephemeralcontainers", strategic, `{spec: {ephemeralContainers: [{name: d2, image: d, volumeMounts: [{name: memproxy-credentials, mountPath: /x}], ` + restrictedContext + `}]}}`, "reserved for the sidecar"},
		{"a debugger in the agent", "plain", "/ephemeralcontainers", strategic, `{spec: {ephemeralContainers: [{name: d3, image: d, targetContainerName: agent, ` + restrictedContext + `}]}}`, ""},
	} {
		code, message := patch(c.pod, c.sub, c.contentType, c.body)
		switch {
		case c.want == "" && code != http.StatusOK:
			t.Errorf("%s: %d %s", c.name, code, message)
		case c.want != "" && (code != http.StatusForbidden || !strings.Contains(message, c.want)):
			t.Errorf("%s: %d %s, want a refusal with %q", c.name, code, message, c.want)
		}
	}
}

// runs starts the sidecar as the accepted pod says and plays the agent.
func (in *installation) runs(t *testing.T, accepted map[string]any) {
	if os.Getuid() != 0 {
		t.Skip("a root file system of its own needs root")
	}
	k := &kubelet{c: in.cluster, namespace: "agents", pod: in.get("Pod", "agents", "agent"), root: t.TempDir()}
	for dir := k.root; dir != "/"; dir = filepath.Dir(dir) { // the sidecar's user must get through
		if st, err := os.Stat(dir); err == nil && st.Mode().Perm()&0o001 == 0 {
			must.Do(t, os.Chmod(dir, st.Mode().Perm()|0o011))
		}
	}
	container := itemsOf(accepted, "spec", "initContainers")[0]
	k.run(t, container, in.binary)
	admin := "http://127.0.0.1:" + in.ports["ADMIN"]
	waitFor(t, "the startup probe passes", func() bool {
		a, err := tryCall(http.MethodGet, admin+textOf(container, "startupProbe", "httpGet", "path"), "", "")
		return err == nil && a.status == http.StatusOK
	})
	var base string
	for _, v := range k.env(t, itemsOf(accepted, "spec", "containers")[0]) {
		if url, ok := strings.CutPrefix(v, "MEM0_BASE_URL="); ok {
			base = url
		}
	}
	const note = `{"user_id":"ann","agent_id":"support","infer":false,"messages":[{"role":"user","content":"likes tea"}]}`
	call(t, http.MethodPost, base+"/memories", "the-agents-own-key", note).want(t, http.StatusOK, "the pod as caller")
	call(t, http.MethodPost, base+"/memories", "", strings.Replace(note, `"support"`, `"ceo"`, 1)).want(t, http.StatusForbidden, "as another agent")
	for _, c := range []struct {
		audience string
		want     int
	}{{"memproxy", http.StatusOK}, {"", http.StatusUnauthorized}} {
		search := `{"query":"tea","filters":{"user_id":"ann"}}`
		call(t, http.MethodPost, base+"/search", "", search, "X-Memproxy-Token", k.token(c.audience)).want(t, c.want, "a projected token for", c.audience)
	}
	in.backend.mu.Lock()
	defer in.backend.mu.Unlock()
	expect.That(t, len(in.backend.keys) > 0, "nothing arrived")
	for _, key := range in.backend.keys {
		expect.Equal(t, key, backendKey, "the backend was given")
	}
	records, code := run(t, nil, in.binary, "audit", "query", "--dir", filepath.Join(k.root, "var/lib/memproxy/audit"), "--principal", "system:serviceaccount:agents:support", "--type", "decision")
	n := len(lines(records))
	expect.That(t, code == 0 && n == 3, "%d decisions of the pod's service account:\n%s", n, records)
}

// away: while the webhook is away no agent starts next to the gate, and nobody
// else is held up.
func (in *installation) away(t *testing.T) {
	in.webhook.stop()
	code, out, _ := in.try(agentPod(t, "agents", "too-early", "", ""))
	message, _ := out["message"].(string)
	expect.That(t, code == http.StatusInternalServerError && strings.Contains(message, "inject.memproxy.io"), "without the webhook: %d %s", code, message)
	code, out, _ = in.try(agentPod(t, "elsewhere", "bystander", "", ""))
	expect.That(t, code == http.StatusCreated, "elsewhere: %d %v", code, out["message"])
}

// What the operators bring whose objects the values ask for. They are not installed,
// so that any object of these kinds is taken.
var operators = [][2]string{
	{"monitoring.coreos.com", "PodMonitor"}, {"monitoring.coreos.com", "PrometheusRule"},
	{"cert-manager.io", "Certificate"}, {"cert-manager.io", "Issuer"},
}

// Proves CARD-8, EDGE-18: helm install with the values of docs/kubernetes.md is taken
// by a real API server, again as an upgrade, and uninstall leaves nothing.
func TestKubeHelmInstallsTheDocumentedValues(t *testing.T) {
	c := startCluster(t)
	page := must.Get(os.ReadFile("../docs/kubernetes.md"))(t)
	_, rest, ok := strings.Cut(string(page), "```yaml\n# values.yaml\n")
	text, _, end := strings.Cut(rest, "```")
	must.That(t, ok && end, "the page shows no values")
	dir := t.TempDir()
	values, config := filepath.Join(dir, "values.yaml"), filepath.Join(dir, "kubeconfig")
	writeFile(t, values, []byte(strings.Replace(text, "sha256:…", "sha256:"+strings.Repeat("0", 64), 1)))
	writeFile(t, filepath.Join(dir, "ca.crt"), c.ca.pem)
	writeFile(t, config, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: admin}}]
clusters: [{name: test, cluster: {server: %q, certificate-authority: ca.crt}}]
users: [{name: admin, user: {token: %s}}]
`, c.url, adminToken))
	for _, o := range operators {
		singular := strings.ToLower(o[1])
		c.create(yamlObject(t, strings.NewReplacer("GROUP", o[0], "KIND", o[1], "SINGULAR", singular).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: SINGULARs.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: SINGULARs, singular: SINGULAR, kind: KIND}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`)))
	}
	for _, o := range operators {
		waitFor(t, o[1]+" is served", func() bool {
			code, _, _ := c.do(http.MethodGet, "/apis/"+o[0]+"/v1/namespaces/agents/"+strings.ToLower(o[1])+"s", asJSON, nil)
			return code == http.StatusOK
		})
	}
	for _, ns := range []string{"memproxy-system", "agents", "memory"} {
		c.create(yamlObject(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}"))
	}
	helm := func(args ...string) string {
		t.Helper()
		out, code := run(t, []string{"HOME=" + dir, "KUBECONFIG=" + config}, filepath.Join(kubeHome(t), "helm"), append(args, "-n", "memproxy-system")...)
		must.Equal(t, code, 0, "helm", strings.Join(args, " "), out)
		return out
	}
	expect.Text(t, helm("install", "memproxy", "../charts/memproxy", "-f", values)).Has("STATUS: deployed")
	expect.Text(t, helm("upgrade", "memproxy", "../charts/memproxy", "-f", values)).Has("REVISION: 2")
	c.get("Deployment", "memproxy-system", "memproxy-injector")
	c.get("MutatingWebhookConfiguration", "", "memproxy-injector")
	c.get("NetworkPolicy", "memory", "memproxy-mem0")
	helm("uninstall", "memproxy")
	if code, _, _ := c.do(http.MethodGet, c.path("Deployment", "memproxy-system")+"/memproxy-injector", asJSON, nil); code != http.StatusNotFound {
		t.Errorf("after uninstall the deployment is answered %d", code)
	}
}
