package charttest

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func dig(t testing.TB, v any, path ...string) any {
	t.Helper()
	for _, p := range path {
		m, ok := v.(map[string]any)
		must.Equal(t, ok, true, "there is no", strings.Join(path, "."))
		v = m[p]
	}
	return v
}

// find is the document of a kind whose name ends so.
func find(t testing.TB, docs []map[string]any, kind, suffix string) map[string]any {
	t.Helper()
	for _, d := range docs {
		name, _ := dig(t, d, "metadata", "name").(string)
		if d["kind"] == kind && strings.HasSuffix(name, suffix) {
			return d
		}
	}
	t.Fatalf("no %s …%s", kind, suffix)
	return nil
}

// The sidecar's configuration is one that the sidecar takes, with what the
// values said, and without a warning that they did not ask for.
func TestSidecarConfigurationIsValid(t *testing.T) {
	env := map[string]string{
		"POD_NAMESPACE": "agents", "POD_NAME": "p1", "POD_SERVICE_ACCOUNT": "support", "REDIS_URL": "redis://r:6379/0", "DATABASE_URL": "postgres://db.example/ledger",
	}
	for _, name := range []string{"least", "full"} {
		docs := documents(t, render(t, values(t, name)))
		text := dig(t, find(t, docs, "ConfigMap", "-sidecar"), "data", "memproxy.yaml").(string)
		for _, b := range []string{"mem0", "letta"} { // there is no such file here
			text = strings.ReplaceAll(text, "file:/etc/memproxy/credentials/"+b, "key-of-"+b)
		}
		c := must.Get(config.Parse(name, []byte(text), func(k string) string { return env[k] }))(t, text)
		expect.Equal(t, c.Identity.Default.ID, "system:serviceaccount:agents:support", name, "the pod is")
		if c.Backends[0].Credential.Reveal() != "key-of-mem0" || c.Backends[0].Listen != "127.0.0.1:8081" || c.Profile != "production" {
			t.Errorf("%s: %+v", name, c.Backends[0])
		}
		if name != "full" {
			continue
		}
		if c.Budgets.Redis == nil || c.Ledger.URL.Reveal() != env["DATABASE_URL"] || c.Identity.OIDC == nil || c.Policy.Dir == "" || c.Telemetry.OTLP == "" || len(c.Backends[0].Passthrough) != 1 {
			t.Errorf("what the values say is not in\n%s", text)
		}
		if f := c.Policy.Control; f == nil || f.Address != "memproxy-control.memproxy-system.svc:18443" || f.Node != "agents/p1" {
			t.Errorf("the control plane: %+v", f)
		}
		must.Len(t, c.Backends, 2, "backends")
		expect.Equal(t, c.Backends[1].CredentialAs, "bearer", "backends")
	}
}

// So is the control plane's, and it is the same fleet.
func TestControlConfigurationIsValid(t *testing.T) {
	docs := documents(t, render(t, values(t, "full")))
	text := dig(t, find(t, docs, "ConfigMap", "-control"), "data", "control.yaml").(string)
	c := must.Get(config.ParseControlPlane("control.yaml", []byte(text), func(string) string { return "" }))(t, text)
	if c.Fleet != "acme" || len(c.Sidecars) != 1 || c.Listen != ":18443" || c.Admin.Listen != ":9903" {
		t.Errorf("%+v", c)
	}
}

// No other container takes a port at which the sidecar listens, wherever the values
// put it. Proves CARD-8.
func TestInjectorKnowsTheSidecarsPorts(t *testing.T) {
	v := values(t, "full")
	v["config"] = map[string]any{"admin": map[string]any{"listen": "127.0.0.1:9999"}}
	v["backends"].([]any)[1].(map[string]any)["port"] = 8099
	docs := documents(t, render(t, v))
	c := must.Get(inject.ParseConfig([]byte(dig(t, find(t, docs, "ConfigMap", "-injector"), "data", "inject.yaml").(string))))(t)
	i := must.Get(inject.New(c, nil))(t)
	for _, port := range []int{9999, 9901, 8081, 8099, 8083} {
		pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{inject.AnnotationInject: "true"}}, "spec": map[string]any{
			"containers": []any{map[string]any{"name": "agent", "ports": []any{map[string]any{"containerPort": port}}}},
		}}
		got := review(t, i, pod)
		if free := port == 8083; got.Allowed != free || free == strings.Contains(got.Status.Message, "the sidecar's") {
			t.Errorf("port %d: allowed %t, %s", port, got.Allowed, got.Status.Message)
		}
	}
}

// injected asks the injector of the full values what it makes of a pod.
func injected(t testing.TB, pod map[string]any) []inject.Patch {
	t.Helper()
	docs := documents(t, render(t, values(t, "full")))
	text := dig(t, find(t, docs, "ConfigMap", "-injector"), "data", "inject.yaml").(string)
	c := must.Get(inject.ParseConfig([]byte(text)))(t, text)
	c.Pods = "all"
	i, err := inject.New(c, nil)
	must.Do(t, err)
	got := review(t, i, pod)
	must.Equal(t, got.Allowed, true, got.Status.Message)
	var patch []inject.Patch
	if len(got.Patch) > 0 {
		must.Do(t, json.Unmarshal(got.Patch, &patch))
	}
	return patch
}

type verdict struct {
	Allowed bool
	Patch   []byte
	Status  struct{ Message string }
}

// review asks the mutating webhook about a new pod.
func review(t testing.TB, i *inject.Injector, pod map[string]any) verdict {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": map[string]any{"uid": "1", "operation": "CREATE", "kind": map[string]any{"version": "v1", "kind": "Pod"}, "object": pod},
	})
	must.Do(t, err)
	out := must.Get(i.Review(inject.Mutate, body))(t)
	var got struct{ Response verdict }
	must.Do(t, json.Unmarshal(out, &got))
	return got.Response
}

// compareWithInjection: what the webhook does to an included pod changes
// nothing in it.
func compareWithInjection(t *testing.T, pod map[string]any) {
	t.Helper()
	before, err := json.Marshal(pod)
	must.Do(t, err)
	var have any
	must.Do(t, json.Unmarshal(before, &have))
	for _, op := range injected(t, pod) {
		var want any
		must.Do(t, json.Unmarshal(op.Value, &want))
		expect.Deep(t, at(t, have, op.Path), want, op.Path, "included", "injected")
	}
	without := map[string]any{"metadata": map[string]any{"name": "agent"}, "spec": map[string]any{"containers": []any{map[string]any{"name": "agent", "image": "agent"}}}}
	if n := len(injected(t, without)); n < 5 {
		t.Errorf("a pod without what the chart includes is changed in %d steps: the test compares nothing", n)
	}
}

func at(t testing.TB, v any, path string) any {
	t.Helper()
	for key := range strings.SplitSeq(path[1:], "/") {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			k := 0
			for _, c := range key {
				k = 10*k + int(c-'0')
			}
			v = x[k]
		}
	}
	return v
}

// A webhook outside the cluster shows a certificate for its own address. Proves CARD-8.
func TestCertificateIsForTheWebhooksAddress(t *testing.T) {
	service := []any{"memproxy-injector.memproxy-system.svc", "memproxy-injector.memproxy-system.svc.cluster.local"}
	for url, want := range map[string][2][]any{
		"":                                  {service, nil},
		"https://hook.example:8443/inject/": {append(slices.Clone(service), "hook.example"), nil},
		"https://10.0.0.9:8443":             {service, {"10.0.0.9"}},
		"https://[fd00::9]":                 {service, {"fd00::9"}},
	} {
		v := values(t, "least")
		v["injector"] = map[string]any{"url": url}
		spec := dig(t, find(t, documents(t, render(t, v)), "Certificate", "-injector"), "spec")
		ips, _ := dig(t, spec, "ipAddresses").([]any)
		if names := dig(t, spec, "dnsNames"); !reflect.DeepEqual(names, want[0]) || !slices.Equal(ips, want[1]) {
			t.Errorf("%q: names %v, addresses %v", url, names, ips)
		}
	}
}

// Nodes are drained of one replica at a time, of the webhook and of the control plane.
// Proves CARD-8.
func TestDisruptionBudgets(t *testing.T) {
	docs := documents(t, render(t, values(t, "full")))
	for _, component := range []string{"injector", "control"} {
		pods := dig(t, find(t, docs, "Deployment", "-"+component), "spec", "selector")
		spec := dig(t, find(t, docs, "PodDisruptionBudget", "-"+component), "spec")
		expect.Equal(t, dig(t, spec, "maxUnavailable"), 1, component, spec, "the pods are")
		expect.Deep(t, dig(t, spec, "selector"), pods, component, spec, "the pods are")
	}
}

// Every container that the chart runs is held to the same: nothing that it
// need not have. Proves CARD-8.
func TestContainersAreHeldShort(t *testing.T) {
	docs := documents(t, render(t, values(t, "full")))
	var containers []map[string]any
	for _, d := range docs {
		if d["kind"] != "Deployment" {
			continue
		}
		spec := dig(t, d, "spec", "template", "spec")
		expect.Equal(t, dig(t, spec, "automountServiceAccountToken"), false, dig(t, d, "metadata", "name"), "a token of the API server is mounted")
		containers = append(containers, dig(t, spec, "containers").([]any)[0].(map[string]any))
	}
	patch := injected(t, map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"containers": []any{map[string]any{"name": "a"}}}})
	for _, op := range patch {
		if op.Path == "/spec/initContainers" {
			var list []map[string]any
			must.Do(t, json.Unmarshal(op.Value, &list))
			if list[0]["restartPolicy"] != "Always" || list[0]["startupProbe"] == nil {
				t.Errorf("not a native sidecar that others wait for: %v", list[0])
			}
			containers = append(containers, list[0])
		}
	}
	must.Len(t, containers, 3, "containers")
	for _, c := range containers {
		sc := dig(t, c, "securityContext")
		for k, want := range map[string]any{
			"runAsNonRoot": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "privileged": false,
		} {
			expect.Equal(t, dig(t, sc, k), want, c["name"], k)
		}
		if drop := dig(t, sc, "capabilities", "drop").([]any); len(drop) != 1 || drop[0] != "ALL" {
			t.Errorf("%v keeps capabilities", c["name"])
		}
		expect.Equal(t, dig(t, sc, "seccompProfile", "type"), "RuntimeDefault", c["name"], "seccomp")
		for _, k := range []string{"limits", "requests"} {
			expect.Equal(t, dig(t, c, "resources", k) != nil, true, c["name"], "has no", k)
		}
		for _, k := range []string{"readinessProbe", "livenessProbe"} {
			expect.Equal(t, c[k] != nil, true, c["name"], "has no", k)
		}
	}
}

// The values that docs/kubernetes.md shows give a sidecar that starts, and every
// Secret that they name is made by a command before them.
func TestDocumentedValuesStart(t *testing.T) {
	b := must.Get(os.ReadFile("../../docs/kubernetes.md"))(t)
	commands, rest, found := strings.Cut(string(b), "```yaml\n# values.yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	v := must.Get(chartutil.ReadValues([]byte(strings.Replace(text, "sha256:…", "sha256:"+strings.Repeat("a", 64), 1))))(t)
	must.Equal(t, found, true)
	for _, m := range regexp.MustCompile(`(?:secretName|existingSecret): ([a-z0-9-]+)`).FindAllStringSubmatch(text, -1) {
		expect.Text(t, commands, "no command makes the Secret", m[1]).Has("create secret generic " + m[1] + " ")
	}
	docs := documents(t, render(t, v))
	file := strings.ReplaceAll(dig(t, find(t, docs, "ConfigMap", "-sidecar"), "data", "memproxy.yaml").(string), "file:/etc/memproxy/credentials/mem0", "key")
	env := map[string]string{"POD_NAMESPACE": "agents", "POD_NAME": "p1", "POD_SERVICE_ACCOUNT": "support"}
	c := must.Get(config.Parse("memproxy.yaml", []byte(file), func(k string) string { return env[k] }))(t)
	var sidecar struct {
		Template struct {
			Sidecar struct {
				Env []struct{ Name, Value string }
			}
		}
	}
	must.Do(t, yaml.Unmarshal([]byte(dig(t, find(t, docs, "ConfigMap", "-injector"), "data", "inject.yaml").(string)), &sidecar))
	allowed := ""
	for _, e := range sidecar.Template.Sidecar.Env {
		if e.Name == config.UnsafeEnv {
			allowed = e.Value
		}
	}
	expect.OK(t, expect.Err(c.AllowedUnsafe(allowed)))
}
