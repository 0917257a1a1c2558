package inject_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Each case of testdata/validate is a pod as it would be stored, and whether it is
// allowed. Proves CARD-8.
func TestValidate(t *testing.T) {
	i := testInjector(t)
	for name, a := range cases(t, "validate") {
		t.Run(name, func(t *testing.T) {
			got := ask(t, i, inject.Validate, yamlDoc(t, file(a, "pod")))
			out := "allowed\n"
			if !got.Allowed {
				out = "refused: " + got.Status.Message + "\n"
			}
			expect.Len(t, got.Patch, 0, "a validating webhook changes nothing")
			golden(t, filepath.Join("testdata", "validate", name), a, "want", []byte(out))
		})
	}
}

// Any file is refused or makes an injector.
func FuzzParseConfig(f *testing.F) {
	text := must.Get(os.ReadFile("testdata/config.yaml"))(f)
	f.Add(text)
	f.Add([]byte("template: {sidecar: {name: a, image: b, restartPolicy: Always, env: [{name: x}]}, mounts: [{name: y, mountPath: /}]}"))
	f.Add([]byte("listen: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := inject.ParseConfig(text)
		if err != nil {
			return
		}
		expect.OK(t, expect.Err(inject.New(c, nil)), "parsed, and refused")
	})
}

// A malformed review is an error, so that the failure policy decides; a review of
// another kind is refused.
func TestMalformedReviews(t *testing.T) {
	i := testInjector(t)
	for _, body := range []string{
		``, `{}`, `[]`, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
		`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1"}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1"},"request":{"uid":"2"}}`,
	} {
		expect.Error(t, expect.Err(i.Review(inject.Mutate, []byte(body))), body)
	}
	for _, body := range []string{
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","kind":{"group":"apps","version":"v1","kind":"Deployment"},"object":{}}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"UPDATE","kind":{"version":"v1","kind":"Pod"},"object":{}}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","kind":{"version":"v1","kind":"Pod"},"object":null,"subResource":"status"}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","kind":{"version":"v1","kind":"Pod"},"object":{"spec":{"containers":{}}}}}`,
	} {
		expect.Text(t, string(must.Get(i.Review(inject.Mutate, []byte(body)))(t)), body).Has(`"allowed":false`)
	}
}

func TestReviewsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	o := testConfig(t)
	i := must.Get(inject.New(o, reg))(t)
	pod := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "a"}}}}
	ask(t, i, inject.Mutate, pod)
	ask(t, i, inject.Validate, pod)
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != inject.MetricReviews || len(families[0].GetMetric()) != 2 {
		t.Errorf("%v, %v", families, err)
	}
	expect.Error(t, expect.Err(inject.New(o, reg)), "two injectors count in one place")
}

// Any response has the request's uid, its patch applies, and a second injection changes
// nothing.
func FuzzReview(f *testing.F) {
	for _, pod := range []string{
		`{"metadata":{},"spec":{"containers":[{"name":"a"}]}}`,
		`{"metadata":{"annotations":{"memproxy.io/containers":"a"}},"spec":{"containers":[{"name":"a","env":[{"name":"MEM0_BASE_URL"}]}],"initContainers":[{"name":"memproxy"}],"volumes":[{"name":"memproxy-token"}]}}`,
		`{"metadata":{"labels":{"memproxy.io/injected":"true"}},"spec":{"ephemeralContainers":[{"name":"a"}]}}`,
	} {
		f.Add([]byte(pod))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		i := testInjector(t)
		var pod any
		if json.Unmarshal(object, &pod) != nil {
			return
		}
		whole, _ := pod.(map[string]any)
		_, metadata := whole["metadata"].(map[string]any)
		_, spec := whole["spec"].(map[string]any)
		if !metadata || !spec {
			return // pods from an API server have both
		}
		got := ask(t, i, inject.Mutate, pod)
		if !got.Allowed {
			return
		}
		if !wellFormed(pod) {
			return // the API server never sends null for a list or an object
		}
		after := patched(t, pod, got.Patch)
		again := ask(t, i, inject.Mutate, after)
		must.Equal(t, again.Allowed, true, "the second time", again.Status.Message)
		must.Equal(t, text(t, patched(t, after, again.Patch)), text(t, after), "injected twice is not injected once")
	})
}

// wellFormed reports whether a document has no null, which decodes like an absent
// member.
func wellFormed(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case map[string]any:
		for _, x := range v {
			if !wellFormed(x) {
				return false
			}
		}
	case []any:
		for _, x := range v {
			if !wellFormed(x) {
				return false
			}
		}
	}
	return true
}

// Claims of ephemeral volumes are called POD-VOLUME, so that any pod can name them: no
// pod may have a sidecar's, or a copy. Proves CARD-8.
func TestClaimsOfSidecars(t *testing.T) {
	i := must.Get(inject.New(withClaim(t), nil))(t)
	for claim, want := range map[string]bool{"agent-0-memproxy-state": false, "memproxy-state": true, "agent-0-data": true} {
		for _, volume := range []string{
			"{name: v, persistentVolumeClaim: {claimName: %s}}",
			"{name: v, ephemeral: {volumeClaimTemplate: {spec: {dataSource: {kind: PersistentVolumeClaim, name: %s}}}}}",
			"{name: v, ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: {kind: PersistentVolumeClaim, name: %s}}}}}",
		} {
			pod := yamlDoc(t, fmt.Appendf(nil, "{metadata: {}, spec: {containers: [{name: a}], volumes: ["+volume+"]}}", claim))
			for _, w := range []inject.Webhook{inject.Mutate, inject.Validate} {
				expect.Equal(t, ask(t, i, w, pod).Allowed, want, w, "a pod with", volume, claim)
			}
		}
	}
}

// withClaim is a configuration with a volume that is made for the pod.
func withClaim(t testing.TB) *inject.Config {
	t.Helper()
	o := testConfig(t)
	state := yamlDoc(t, []byte("{name: memproxy-state, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}"))
	o.Template.Volumes = append(o.Template.Volumes, state.(map[string]any))
	return o
}

// The API server writes metadata into the template of a claim, empty or with a time that
// is not set; names and annotations there would be somebody's. Proves CARD-8.
func TestStoredClaimTemplate(t *testing.T) {
	i := must.Get(inject.New(withClaim(t), nil))(t)
	for metadata, want := range map[string]bool{"{}": true, "{creationTimestamp: null}": true, "{annotations: {a: b}}": false} {
		pod := yamlDoc(t, []byte("{metadata: {}, spec: {containers: [{name: a}]}}"))
		pod = patched(t, pod, ask(t, i, inject.Mutate, pod).Patch)
		for _, v := range pod.(map[string]any)["spec"].(map[string]any)["volumes"].([]any) {
			if e, ok := v.(map[string]any)["ephemeral"].(map[string]any); ok {
				e["volumeClaimTemplate"].(map[string]any)["metadata"] = yamlDoc(t, []byte(metadata))
			}
		}
		expect.Equal(t, ask(t, i, inject.Validate, pod).Allowed, want, "metadata", metadata)
	}
}

// A command in the sidecar would have its Secrets; one in the agent is nobody's concern.
// Proves CARD-8.
func TestCommandsInTheSidecar(t *testing.T) {
	i := testInjector(t)
	for container, want := range map[string]bool{"memproxy": false, "agent": true, "": true} {
		body := fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CONNECT","subResource":"exec","kind":{"version":"v1","kind":"PodExecOptions"},"object":{"container":%q,"command":["sh"]}}}`, container)
		out := must.Get(i.Review(inject.Validate, body))(t)
		expect.Equal(t, strings.Contains(string(out), `"allowed":true`), want, "a command in", container, out)
	}
}

// A pod that has an earlier installation's sidecar can be updated, and what runs in it
// cannot be changed. Proves CARD-8.
func TestUpdatesAfterAnUpgrade(t *testing.T) {
	o := testConfig(t)
	before := map[string]any{"metadata": map[string]any{"finalizers": []any{"batch.kubernetes.io/job-tracking"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "a:1"}}}}
	before = patched(t, before, ask(t, must.Get(inject.New(o, nil))(t), inject.Mutate, before).Patch).(map[string]any)
	o.Template.Sidecar["image"] = "memproxy:v2"
	i := must.Get(inject.New(o, nil))(t)
	must.Equal(t, ask(t, i, inject.Validate, before).Allowed, false, "a new pod with another version's sidecar is allowed")
	for name, c := range map[string]struct {
		change func(metadata, spec map[string]any)
		want   bool
	}{
		"finalizers":  {func(m, _ map[string]any) { delete(m, "finalizers") }, true},
		"tolerations": {func(_, s map[string]any) { s["tolerations"] = []any{map[string]any{"operator": "Exists"}} }, true},
		"label":       {func(m, _ map[string]any) { m["labels"] = map[string]any{} }, false},
		"sidecar": {func(_, s map[string]any) {
			s["initContainers"].([]any)[0].(map[string]any)["image"] = "evil:1"
		}, false},
		"debugger": {func(_, s map[string]any) {
			s["ephemeralContainers"] = []any{map[string]any{"name": "d", "targetContainerName": "memproxy"}}
		}, false},
	} {
		after := yamlDoc(t, []byte(text(t, before))).(map[string]any)
		c.change(after["metadata"].(map[string]any), after["spec"].(map[string]any))
		expect.Equal(t, update(t, i, before, after).Allowed, c.want, name)
	}
}
