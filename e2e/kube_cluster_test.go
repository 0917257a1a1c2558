//go:build e2e && e2ekube

package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
)

// clusterCA is a CA of the test's, for the API server and the webhook.
type clusterCA struct {
	*xdstest.CA
	dir string
	pem []byte
}

func newClusterCA(t *testing.T) *clusterCA {
	t.Helper()
	a := &clusterCA{CA: must.Get(xdstest.NewCA())(t), dir: t.TempDir()}
	cert, _ := a.issue(t, "first")
	a.pem = must.Get(os.ReadFile(filepath.Join(filepath.Dir(cert), "ca.crt")))(t)
	return a
}

// issue writes a server's certificate for the loopback address, and its key.
func (a *clusterCA) issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	must.Do(t, a.Write(a.dir, name))
	return filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
}

// cluster is a real API server with its etcd, and nothing else: no kubelet, no
// controllers.
type cluster struct {
	t      *testing.T
	url    string
	ca     *clusterCA
	client *http.Client
}

const adminToken = "admin-of-the-test"

func kubeHome(t *testing.T) string {
	t.Helper()
	home := part(t, "kube")
	must.Get(os.Stat(filepath.Join(home, "kube-apiserver")))(t)
	return home
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	home, dir, ca := kubeHome(t), t.TempDir(), newClusterCA(t)
	client, peer := "http://"+freeport.Addr(t), "http://"+freeport.Addr(t)
	start(t, filepath.Join(home, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	addr := freeport.Addr(t)
	_, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	cert, key := ca.issue(t, "apiserver")
	accountsCert, accounts := ca.issue(t, "accounts")
	tokens := filepath.Join(dir, "tokens.csv")
	writeFile(t, tokens, []byte(adminToken+",admin,admin,system:masters\n"))
	start(t, filepath.Join(home, "kube-apiserver"), "--etcd-servers", client,
		"--bind-address", "127.0.0.1", "--secure-port", port, "--advertise-address", "127.0.0.1",
		"--tls-cert-file", cert, "--tls-private-key-file", key, "--cert-dir", filepath.Join(dir, "certs"),
		"--service-account-issuer", "https://"+addr, "--service-account-signing-key-file", accounts,
		"--service-account-key-file", accountsCert, "--service-cluster-ip-range", "10.0.0.0/24",
		"--authorization-mode", "RBAC", "--token-auth-file", tokens)
	c := &cluster{t: t, url: "https://" + addr, ca: ca, client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool}},
	}}
	waitFor(t, "the API server is ready", func() bool {
		q := must.Get(http.NewRequest(http.MethodGet, c.url+"/readyz", nil))(t)
		resp, err := c.client.Do(q)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return c
}

// do asks the API server, as its administrator, with strict validation of
// fields.
func (c *cluster) do(method, path, contentType string, body any) (int, map[string]any, []string) {
	c.t.Helper()
	var r io.Reader
	if body != nil {
		b := must.Get(json.Marshal(body))(c.t)
		r = bytes.NewReader(b)
	}
	if !strings.Contains(path, "?") {
		path += "?fieldValidation=Strict"
	}
	q := must.Get(http.NewRequest(method, c.url+path, r))(c.t)
	q.Header.Set("Authorization", "Bearer "+adminToken)
	q.Header.Set("Content-Type", contentType)
	resp := must.Get(c.client.Do(q))(c.t)
	defer resp.Body.Close()
	var out map[string]any
	must.Do(c.t, json.NewDecoder(resp.Body).Decode(&out))
	return resp.StatusCode, out, resp.Header.Values("Warning")
}

const asJSON = "application/json"

// kindPaths are where objects of a kind live; %s is the namespace.
var kindPaths = map[string]string{
	"Namespace":                      "/api/v1/namespaces",
	"ConfigMap":                      "/api/v1/namespaces/%s/configmaps",
	"Secret":                         "/api/v1/namespaces/%s/secrets",
	"Service":                        "/api/v1/namespaces/%s/services",
	"ServiceAccount":                 "/api/v1/namespaces/%s/serviceaccounts",
	"Pod":                            "/api/v1/namespaces/%s/pods",
	"Deployment":                     "/apis/apps/v1/namespaces/%s/deployments",
	"PodDisruptionBudget":            "/apis/policy/v1/namespaces/%s/poddisruptionbudgets",
	"NetworkPolicy":                  "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies",
	"ClusterRoleBinding":             "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"MutatingWebhookConfiguration":   "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
	"CustomResourceDefinition":       "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}

func (c *cluster) path(kind, namespace string) string {
	c.t.Helper()
	p, ok := kindPaths[kind]
	if !ok {
		c.t.Fatalf("no path for a %s", kind)
	}
	if strings.Contains(p, "%s") {
		return fmt.Sprintf(p, namespace)
	}
	return p
}

// create puts an object in, which must be taken as it is.
func (c *cluster) create(obj map[string]any) map[string]any {
	c.t.Helper()
	code, out, warnings := c.try(obj)
	must.Equal(c.t, code, http.StatusCreated, obj["kind"], obj["metadata"], out["message"])
	for _, w := range warnings {
		expect.Text(c.t, w, obj["kind"], obj["metadata"]).Has("memproxy: ")
	}
	return out
}

func (c *cluster) try(obj map[string]any) (int, map[string]any, []string) {
	c.t.Helper()
	kind, _ := obj["kind"].(string)
	namespace, _ := obj["metadata"].(map[string]any)["namespace"].(string)
	return c.do(http.MethodPost, c.path(kind, namespace), asJSON, obj)
}

// get reads an object that is there.
func (c *cluster) get(kind, namespace, name string) map[string]any {
	c.t.Helper()
	code, out, _ := c.do(http.MethodGet, c.path(kind, namespace)+"/"+name, asJSON, nil)
	must.Equal(c.t, code, http.StatusOK, kind, name, out["message"])
	return out
}
