//go:build e2e && e2ekube

package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// kubelet does for one container of one pod what a kubelet would: volumes from
// the API server's objects, variables, a root file system that holds the
// image's files and nothing else, the user that the security context names.
type kubelet struct {
	c         *cluster
	namespace string
	pod       map[string]any
	root      string
}

func fieldOf(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func textOf(v any, path ...string) string {
	s, _ := fieldOf(v, path...).(string)
	return s
}

func itemsOf(v any, path ...string) (out []map[string]any) {
	list, _ := fieldOf(v, path...).([]any)
	for _, x := range list {
		m, _ := x.(map[string]any)
		out = append(out, m)
	}
	return out
}

func byName(list []map[string]any, name string) map[string]any {
	for _, m := range list {
		if m["name"] == name {
			return m
		}
	}
	return nil
}

// run starts a container from an image that is one static binary.
func (k *kubelet) run(t *testing.T, container map[string]any, binary string) *process {
	t.Helper()
	k.image(t, binary)
	for _, m := range itemsOf(container, "volumeMounts") {
		k.mount(t, m)
	}
	cmd := exec.Command("/memproxy")
	for _, a := range fieldOf(container, "args").([]any) {
		cmd.Args = append(cmd.Args, a.(string))
	}
	cmd.Dir = "/"
	cmd.Env = k.env(t, container)
	uid, gid := fieldOf(container, "securityContext", "runAsUser").(float64), fieldOf(container, "securityContext", "runAsGroup").(float64)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: k.root, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: false}}
	p := &process{cmd: cmd, log: &ring.Buffer{}}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the sidecar said:\n%s", tail(p.log.String(), 6000))
		}
	})
	return p
}

// image lays out what the Dockerfile copies: the binary, and no shell.
func (k *kubelet) image(t *testing.T, binary string) {
	t.Helper()
	b := must.Get(os.ReadFile(binary))(t)
	must.Do(t, os.WriteFile(filepath.Join(k.root, "memproxy"), b, 0o755))
	for _, dir := range []string{"etc/ssl/certs", "tmp"} {
		must.Do(t, os.MkdirAll(filepath.Join(k.root, dir), 0o755))
	}
	writeFile(t, filepath.Join(k.root, "etc/resolv.conf"), nil)
}

// putFile writes a file as root's with the volume's mode.
func putFile(t *testing.T, path string, b []byte, mode os.FileMode) {
	t.Helper()
	writeFile(t, path, b)
	must.Do(t, os.Chmod(path, mode))
}

func modeOf(v map[string]any) os.FileMode {
	if m, ok := v["defaultMode"].(float64); ok {
		return os.FileMode(m)
	}
	return 0o644
}

// secret is the data of a Secret.
func (k *kubelet) secret(t *testing.T, name, key string) []byte {
	t.Helper()
	return must.Get(base64.StdEncoding.DecodeString(textOf(k.c.get("Secret", k.namespace, name), "data", key)))(t)
}

func (k *kubelet) mount(t *testing.T, m map[string]any) {
	t.Helper()
	at := filepath.Join(k.root, textOf(m, "mountPath"))
	v := byName(itemsOf(k.pod, "spec", "volumes"), textOf(m, "name"))
	switch {
	case v["emptyDir"] != nil:
		must.Do(t, os.MkdirAll(at, 0o777))
		if err := os.Chmod(at, 0o777); err != nil { // as a kubelet makes it
			t.Fatal(err)
		}
	case v["configMap"] != nil:
		data, _ := fieldOf(k.c.get("ConfigMap", k.namespace, textOf(v, "configMap", "name")), "data").(map[string]any)
		for name, s := range data {
			putFile(t, filepath.Join(at, name), []byte(s.(string)), modeOf(v["configMap"].(map[string]any)))
		}
	case v["secret"] != nil:
		source := v["secret"].(map[string]any)
		if sub := textOf(m, "subPath"); sub != "" {
			putFile(t, at, k.secret(t, textOf(source, "secretName"), sub), modeOf(source))
			return
		}
		t.Fatalf("volume %v is mounted as a whole", v["name"])
	case v["projected"] != nil:
		k.project(t, v["projected"].(map[string]any), at)
	default:
		t.Fatalf("a kubelet would mount %v; this one cannot", v)
	}
}

func (k *kubelet) project(t *testing.T, source map[string]any, at string) {
	t.Helper()
	for _, s := range itemsOf(source, "sources") {
		switch {
		case s["secret"] != nil:
			for _, i := range itemsOf(s, "secret", "items") {
				putFile(t, filepath.Join(at, textOf(i, "path")), k.secret(t, textOf(s, "secret", "name"), textOf(i, "key")), modeOf(source))
			}
		case s["serviceAccountToken"] != nil:
			token := k.token(textOf(s, "serviceAccountToken", "audience"))
			putFile(t, filepath.Join(at, textOf(s, "serviceAccountToken", "path")), []byte(token), 0o644)
		case s["configMap"] != nil, s["downwardAPI"] != nil: // of the API server's own volume
		default:
			t.Fatalf("a kubelet would project %v; this one cannot", s)
		}
	}
}

// token asks the API server for a token of the pod's, as a kubelet does.
func (k *kubelet) token(audience string) string {
	k.c.t.Helper()
	spec := map[string]any{"expirationSeconds": 3600, "boundObjectRef": map[string]any{
		"kind": "Pod", "apiVersion": "v1", "name": textOf(k.pod, "metadata", "name"), "uid": textOf(k.pod, "metadata", "uid"),
	}}
	if audience != "" {
		spec["audiences"] = []string{audience}
	}
	path := k.c.path("ServiceAccount", k.namespace) + "/" + textOf(k.pod, "spec", "serviceAccountName") + "/token"
	code, out, _ := k.c.do("POST", path, asJSON, map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
	must.Equal(k.c.t, code, 201, "no token", out["message"])
	return textOf(out, "status", "token")
}

func (k *kubelet) env(t *testing.T, container map[string]any) (out []string) {
	t.Helper()
	known := map[string]string{}
	for _, v := range itemsOf(container, "env") {
		value := textOf(v, "value")
		for name, s := range known {
			value = strings.ReplaceAll(value, "$("+name+")", s)
		}
		if from := v["valueFrom"]; from != nil {
			switch path := textOf(from, "fieldRef", "fieldPath"); {
			case path != "":
				value = textOf(k.pod, strings.Split(path, ".")...)
			case fieldOf(from, "secretKeyRef") != nil:
				value = string(k.secret(t, textOf(from, "secretKeyRef", "name"), textOf(from, "secretKeyRef", "key")))
			default:
				t.Fatalf("variable %v", v)
			}
		}
		known[textOf(v, "name")] = value
		out = append(out, fmt.Sprintf("%s=%s", v["name"], value))
	}
	return out
}
