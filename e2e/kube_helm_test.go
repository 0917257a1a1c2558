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
