package inject_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var rewrite = flag.Bool("update", false, "write what came out into the cases")

func testConfig(t testing.TB) *inject.Config {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/config.yaml"))(t)
	return must.Get(inject.ParseConfig(text))(t)
}

func testInjector(t testing.TB) *inject.Injector {
	t.Helper()
	return must.Get(inject.New(testConfig(t), nil))(t)
}

// verdict is the response of an AdmissionReview.
type verdict struct {
	UID      string
	Allowed  bool
	Status   struct{ Message string }
	Patch    []byte
	Warnings []string
}

// ask sends a pod to a webhook like an API server.
func ask(t testing.TB, i *inject.Injector, w inject.Webhook, object any) verdict {
	t.Helper()
	return review(t, i, w, `"operation":"CREATE","object":`+text(t, object))
}

// update asks the validating webhook about a change of a pod.
func update(t testing.TB, i *inject.Injector, before, after any) verdict {
	t.Helper()
	return review(t, i, inject.Validate, `"operation":"UPDATE","oldObject":`+text(t, before)+`,"object":`+text(t, after))
}

func review(t testing.TB, i *inject.Injector, w inject.Webhook, request string) verdict {
	t.Helper()
	out := must.Get(i.Review(w, fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u1","kind":{"version":"v1","kind":"Pod"},%s}}`, request)))(t)
	var got struct{ Response verdict }
	must.Do(t, json.Unmarshal(out, &got))
	must.Equal(t, got.Response.UID, "u1", "not an answer to u1", out)
	return got.Response
}

func yamlDoc(t testing.TB, text []byte) any {
	t.Helper()
	var v any
	must.Do(t, yaml.Unmarshal(text, &v))
	return v
}

// Each case of testdata/mutate is a pod and the result.
// Proves CARD-8.
func TestMutate(t *testing.T) {
	i := testInjector(t)
	for name, a := range cases(t, "mutate") {
		t.Run(name, func(t *testing.T) {
			pod := yamlDoc(t, file(a, "pod"))
			got := ask(t, i, inject.Mutate, pod)
			var out bytes.Buffer
			if !got.Allowed {
				out.WriteString("refused: " + got.Status.Message + "\n")
			}
			for _, w := range got.Warnings {
				out.WriteString("warning: " + w + "\n")
			}
			if got.Allowed {
				after := patched(t, pod, got.Patch)
				must.Do(t, yaml.NewEncoder(&out).Encode(after))
				again := ask(t, i, inject.Mutate, after)
				if len(again.Patch) > 0 {
					twice, once := patched(t, after, again.Patch), after
					if a, b := text(t, once), text(t, twice); a != b {
						t.Errorf("injected twice is not injected once:\n%s\n%s", a, b)
					}
				}
				expect.Equal(t, ask(t, i, inject.Validate, after).Allowed, true, "the validating webhook refuses what the mutating one made")
			}
			golden(t, filepath.Join("testdata", "mutate", name), a, "want", out.Bytes())
		})
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	b := must.Get(json.Marshal(v))(t)
	return string(b)
}

func cases(t *testing.T, dir string) map[string]*txtar.Archive {
	t.Helper()
	paths := must.Get(filepath.Glob(filepath.Join("testdata", dir, "*.txtar")))(t)
	must.Equal(t, len(paths) >= 5, true, len(paths), "cases")
	out := map[string]*txtar.Archive{}
	for _, p := range paths {
		out[filepath.Base(p)] = must.Get(txtar.ParseFile(p))(t)
	}
	return out
}

func file(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

func golden(t *testing.T, path string, a *txtar.Archive, name string, got []byte) {
	t.Helper()
	want := file(a, name)
	if bytes.Equal(got, want) {
		return
	}
	if !*rewrite {
		t.Errorf("got\n%s\nwant\n%s", got, want)
		return
	}
	if want == nil {
		a.Files = append(a.Files, txtar.File{Name: name})
	}
	for k := range a.Files {
		if a.Files[k].Name == name {
			a.Files[k].Data = got
		}
	}
	must.Do(t, os.WriteFile(path, txtar.Format(a), 0o644))
}

// A template may mount one volume at two paths, and a second injection changes nothing.
func TestOneVolumeAtTwoPaths(t *testing.T) {
	o := testConfig(t)
	o.Template.Mounts = append(o.Template.Mounts, map[string]any{"name": "memproxy-token", "mountPath": "/token"})
	i := must.Get(inject.New(o, nil))(t)
	pod := yamlDoc(t, []byte("{metadata: {}, spec: {containers: [{name: a}]}}"))
	once := patched(t, pod, ask(t, i, inject.Mutate, pod).Patch)
	expect.Equal(t, text(t, once), text(t, patched(t, once, ask(t, i, inject.Mutate, once).Patch)), "injected twice is not injected once")
}

// A template that cannot work is refused at the start.
func TestTemplates(t *testing.T) {
	whole := must.Get(os.ReadFile("testdata/config.yaml"))(t)
	for _, c := range []struct{ old, new, want string }{
		{"restartPolicy: Always", "restartPolicy: Never", "restartPolicy"},
		{"image: memproxy:v1", "image: ''", "no image"},
		{"    name: memproxy\n", "", "no name"},
		{"- {name: memproxy-credential, secret", "- {name: credential, secret", "does not begin with memproxy-"},
		{"name: LETTA_BASE_URL", "name: MEM0_BASE_URL", "is repeated"},
		{"pods: all", "pods: some", "want all or annotated"},
		{"listen: :8443", "listen: 8443", "host:port"},
		{"pods: all", "pods: all\nport: 1", "field port not found"},
		{"tls: {cert: /etc/memproxy/tls/tls.crt, ", "tls: {", "tls.cert"},
		{"mountPath: /var/run/secrets/memproxy, ", "", "no mountPath"},
	} {
		expect.Text(t, string(whole)).Has(c.old)
		expect.ErrorHas(t, expect.Err(inject.ParseConfig([]byte(strings.Replace(string(whole), c.old, c.new, 1)))), c.want, c.new)
	}
}

// Proves CARD-8: a warning that is cut within a character is valid text: without it, the API
// server would get an error instead of a review.
func TestLongWarnings(t *testing.T) {
	for _, name := range []string{"a" + strings.Repeat("é", 200), strings.Repeat("é", 200)} {
		pod := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": name, "env": []any{map[string]any{"name": "MEM0_BASE_URL", "value": "x"}}}}}}
		got := ask(t, testInjector(t), inject.Mutate, pod)
		if expect.Len(t, got.Warnings, 1) {
			expect.Equal(t, len(got.Warnings[0]) <= 256, true, got.Warnings)
		}
	}
}
