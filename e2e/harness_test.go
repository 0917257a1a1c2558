//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

var (
	buildOnce sync.Once
	binary    string
	buildErr  error
)

// memproxyBinary builds the binary once, with the race detector, as it is
// tested here and not measured.
func memproxyBinary(t *testing.T) string {
	t.Helper()
	buildOnce.Do(func() {
		dir, err := os.MkdirTemp("", "memproxy-e2e-")
		if err != nil {
			buildErr = err
			return
		}
		binary = filepath.Join(dir, "memproxy")
		out, err := exec.Command("go", "build", "-race", "-o", binary, "github.com/memproxy/memproxy/cmd/memproxy").CombinedOutput()
		if err != nil {
			buildErr = fmt.Errorf("%w\n%s", err, out)
		}
	})
	must.Do(t, buildErr)
	return binary
}

// part is the path of something that install.sh installed.
func part(t *testing.T, elem ...string) string {
	t.Helper()
	home := cmp.Or(os.Getenv("E2E_HOME"), filepath.Join("..", ".e2e"))
	return must.Get(filepath.Abs(filepath.Join(append([]string{home}, elem...)...)))(t)
}

func TestMain(m *testing.M) {
	code := m.Run()
	endSpare()
	if binary != "" {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

// process is one started program.
type process struct {
	cmd *exec.Cmd
	log *ring.Buffer
}

// start starts a program that ends with the test.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := launch(t, name, args...)
	p.endsWith(t)
	return p
}

// launch starts a program that somebody else ends.
func launch(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), log: &ring.Buffer{}}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Env = append(os.Environ(), allowing(args)...)
	must.Do(t, p.cmd.Start())
	return p
}

func (p *process) endsWith(t *testing.T) {
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(p.cmd.Path), tail(p.log.String(), 6000))
		}
	})
}

// allowing lets the configuration that a command is given weaken production:
// few tests are about that.
func allowing(args []string) []string {
	at := slices.Index(args, "--config")
	if at < 0 || at+1 >= len(args) {
		return nil
	}
	cfg, err := config.Load(args[at+1], os.Getenv)
	if err != nil {
		return nil // another command's, or one that is to be refused
	}
	if args[0] == "extproc" {
		cfg.BehindEnvoy(true)
	}
	var names []string
	for _, s := range cfg.Unsafe() {
		names = append(names, s.Name)
	}
	return []string{config.UnsafeEnv + "=" + strings.Join(names, ",")}
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// stop asks the process to end, and ends it.
func (p *process) stop() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-done
	}
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ring.UntilIn(t, 3*time.Minute, what, ok)
}

func accepts(addr string) func() bool {
	return func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	}
}

// engine is the real Mem0 engine, shared by the tests that do not break it.
type engine struct {
	*process
	base, stub string
}

func startEngine(t *testing.T) engine {
	t.Helper()
	eng, stub := freeport.Addr(t), freeport.Addr(t)
	_, ep, _ := net.SplitHostPort(eng)
	_, sp, _ := net.SplitHostPort(stub)
	p := start(t, filepath.Join("mem0", "run-engine.sh"), "--engine-port", ep, "--stub-port", sp, "--data", t.TempDir())
	e := engine{process: p, base: "http://" + eng, stub: "http://" + stub}
	waitFor(t, "the engine's health", func() bool {
		resp, err := http.Get(e.base + "/_e2e/health")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == 200
	})
	return e
}

// arrived is a request as the engine saw it.
type arrived struct {
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Query   string      `json:"query"`
	Headers [][2]string `json:"headers"`
	Body    []byte      `json:"body_base64"`
}

func (e engine) requests(t *testing.T) []arrived {
	t.Helper()
	resp := must.Get(http.Get(e.base + "/_e2e/log"))(t)
	defer resp.Body.Close()
	var log struct {
		Requests []arrived `json:"requests"`
	}
	must.Do(t, json.NewDecoder(resp.Body).Decode(&log))
	return slices.DeleteFunc(log.Requests, func(a arrived) bool { // a first start seals the backend
		return slices.Contains(a.Headers, [2]string{"user-agent", memproxy.UserAgent})
	})
}

func (e engine) forget(t *testing.T) {
	t.Helper()
	req, _ := http.NewRequest(http.MethodDelete, e.base+"/_e2e/log", nil)
	resp := must.Get(http.DefaultClient.Do(req))(t)
	resp.Body.Close()
}

// sidecar is a running memproxy serve.
type sidecar struct {
	*process
	base, admin, dir string
}

// serve starts memproxy with the configuration, in which %[1]s is the listen
// address, %[2]s the admin address and %[3]s the state directory.
func serve(t *testing.T, dir, config string) *sidecar {
	t.Helper()
	s := &sidecar{dir: dir}
	listen, admin := freeport.Addr(t), freeport.Addr(t)
	if !strings.Contains(config, "sessions:") { // many a test refuses one caller more than a sidecar puts up with
		config += "\nsessions: {principal_strikes: 100}\n"
	}
	path := filepath.Join(dir, "memproxy.yaml")
	must.Do(t, os.WriteFile(path, fmt.Appendf(nil, config, listen, admin, filepath.Join(dir, "state")), 0o600))
	s.base, s.admin = "http://"+listen, "http://"+admin
	s.process = start(t, memproxyBinary(t), "serve", "--config", path)
	waitFor(t, "memproxy listening", accepts(listen))
	return s
}

func sha(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }

// commandTime ends commands that hang. With other load on the machine, the scenario of an SDK
// took longer than three minutes.
const commandTime = 15 * time.Minute

// run runs a command to its end and returns its output.
func run(t *testing.T, env []string, name string, args ...string) (stdout string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	must.That(t, err == nil || cmd.ProcessState != nil, "%v", err)
	if errs.Len() > 0 {
		t.Logf("%s: %s", filepath.Base(name), tail(errs.String(), 2000))
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, b, 0o644))
}

func lines(s string) []string {
	var out []string
	sc := bufio.NewScanner(strings.NewReader(s))
	sc.Buffer(nil, 4<<20)
	for sc.Scan() {
		out = append(out, sc.Text())
	}
	return out
}

// audit is what the sidecar's audit log has, one JSON object a line.
func (s *sidecar) audit(t *testing.T, args ...string) string {
	t.Helper()
	out, code := run(t, nil, memproxyBinary(t), append([]string{"audit", "query", "--dir", filepath.Join(s.dir, "state", "audit"), "--json"}, args...)...)
	must.Equal(t, code, 0, "audit query", tail(out, 1000))
	return out
}

// verifyAudit checks the signatures and chains of the log of a sidecar that has stopped.
func (s *sidecar) verifyAudit(t *testing.T) {
	t.Helper()
	out, code := run(t, nil, memproxyBinary(t), "audit", "verify", "--dir", filepath.Join(s.dir, "state", "audit"))
	must.Equal(t, code, 0, "audit verify", out)
}

// sidecarConf is a configuration for serve: a backend, named as its kind, and more.
func sidecarConf(profile, kind, upstream, backend, more string) string {
	return `profile: ` + profile + `
state: %[3]s
admin: {listen: "%[2]s"}
backends:
  - {name: ` + kind + `, kind: ` + kind + `, listen: "%[1]s", upstream: "` + upstream + `"` + backend + `}
log: {level: warn}
` + more
}

// keyed is the caller with a key, who may act for every agent unless more says otherwise.
func keyed(secret, id, more string) string {
	if !strings.Contains(more, "acts_as") {
		more += `, acts_as: "*"`
	}
	kind, _, _ := strings.Cut(id, ":")
	return fmt.Sprintf("    - {sha256: %q, id: %q, kind: %s%s}\n", sha(secret), id, kind, more)
}

// agentOf is what most agents have of a tenant.
func agentOf(tenant string) string { return ", trust: authenticated, tenant: " + tenant }
