//go:build e2e

package e2e

import (
	"bytes"
	"errors"
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
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry/audit/auditcmd"
)

// The real Envoy, with the configuration of examples/envoy.

// behindEnvoy is Envoy, memproxy's external processor and a backend that
// answers as a test says. Addresses stay; processes come and go.
type behindEnvoy struct {
	t     *testing.T
	mem0  string // Envoy's listeners
	letta string

	admin, processor string // memproxy's
	httpMem0         string
	httpLetta        string
	envoyAdmin       string

	dir      string
	memproxy *process
	state    string
	mu       sync.Mutex
	handler  http.Handler
	upstream string
}

// ServeHTTP is the backend.
func (b *behindEnvoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	h := b.handler
	b.mu.Unlock()
	h.ServeHTTP(w, r)
}

func (b *behindEnvoy) answers(h http.Handler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handler = h
}

// startEnvoy starts Envoy with the example's configuration; edits are pairs of
// text and replacement, each of which must be found.
func startEnvoy(t *testing.T, edits ...string) *behindEnvoy {
	t.Helper()
	memproxyBinary(t)
	b := &behindEnvoy{t: t, dir: t.TempDir(), handler: http.NotFoundHandler()}
	srv := httptest.NewUnstartedServer(b)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	b.upstream = srv.Listener.Addr().String()
	b.addresses()
	example := "envoy.yaml"
	if len(edits) > 0 && edits[0] == "authz" {
		example, edits = "authz.yaml", edits[1:]
	}
	raw := must.Get(os.ReadFile(filepath.Join("..", "examples", "envoy", example)))(t)
	conf := string(raw)
	for i := 0; i+1 < len(edits); i += 2 {
		expect.Text(t, conf, example, "has no").Has(edits[i])
		conf = strings.ReplaceAll(conf, edits[i], edits[i+1])
	}
	for port, addr := range map[string]string{
		"8081": b.mem0, "8082": b.letta, "9902": b.processor, "8182": b.httpLetta, "8000": b.upstream, "8283": b.upstream, "9900": b.envoyAdmin,
	} {
		_, p, _ := net.SplitHostPort(addr)
		conf = strings.ReplaceAll(conf, "port_value: "+port, "port_value: "+p)
	}
	conf = strings.ReplaceAll(conf, "interval: 1s", "interval: 0.1s")
	path := filepath.Join(b.dir, "envoy.yaml")
	must.Do(t, os.WriteFile(path, []byte(conf), 0o600))
	start(t, envoyBinary(t), "-c", path, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warn", "--drain-time-s", "1", "--parent-shutdown-time-s", "2")
	waitFor(t, "Envoy listening", accepts(b.mem0))
	return b
}

// addresses picks loopback addresses that nobody listens on, no two the same.
func (b *behindEnvoy) addresses() {
	b.t.Helper()
	for _, addr := range [...]*string{&b.mem0, &b.letta, &b.processor, &b.admin, &b.httpMem0, &b.httpLetta, &b.envoyAdmin} {
		*addr = freeport.Addr(b.t)
	}
}

func envoyBinary(t *testing.T) string {
	t.Helper()
	path := part(t, "envoy", "envoy", "_bin", "envoy")
	if _, err := os.Stat(path); err != nil {
		out, err := exec.Command(filepath.Join("envoy", "install.sh")).CombinedOutput()
		must.That(t, err == nil, "install Envoy: %v\n%s", err, out)
	}
	return path
}

// start starts a fresh memproxy with a case's settings, next to an Envoy that
// is there already.
func (b *behindEnvoy) start(s extproctest.Settings, flags ...string) {
	b.t.Helper()
	state := must.Get(os.MkdirTemp(b.dir, "state-"))(b.t)
	b.state = state
	b.restart(s, flags...)
}

// restart starts memproxy with the state it has.
func (b *behindEnvoy) restart(s extproctest.Settings, flags ...string) {
	b.t.Helper()
	listen := b.httpMem0
	if s["kind"] == "letta" {
		listen = b.httpLetta
	}
	path := filepath.Join(b.dir, "memproxy.yaml")
	must.Do(b.t, os.WriteFile(path, []byte(s.Config(listen, b.admin, "http://"+b.upstream, b.state)), 0o600))
	args := append([]string{"extproc", "--config", path, "--listen", b.processor, "--grace", "300ms"}, flags...)
	b.memproxy = start(b.t, memproxyBinary(b.t), args...)
	b.awaits(listen)
}

// awaits waits for memproxy at an address, and for Envoy to have found it.
func (b *behindEnvoy) awaits(listen string) {
	b.t.Helper()
	waitFor(b.t, "the processor listening", accepts(b.processor))
	waitFor(b.t, "the HTTP listener listening", accepts(listen))
	waitFor(b.t, "Envoy finding the processor well", func() bool {
		a, err := tryCall(http.MethodGet, "http://"+b.envoyAdmin+"/clusters", "", "")
		return err == nil && strings.Contains(a.body, "memproxy::"+b.processor+"::health_flags::healthy")
	})
}

// listener is what the cases look at.
func (b *behindEnvoy) listener(addr string, backend *extproctest.Backend) extproctest.Listener {
	return extproctest.Listener{
		Addr: addr, Backend: backend,
		Spans: func() ([]byte, error) {
			a, err := tryCall(http.MethodGet, "http://"+b.admin+"/debug/spans", "", "")
			return []byte(a.body), err
		},
		Audit: func() ([]byte, error) {
			var out, errs bytes.Buffer
			if code := auditcmd.Main(b.t.Context(), []string{"query", "--dir", filepath.Join(b.state, "audit"), "--json"}, &out, &errs); code != 0 {
				return nil, errors.New(errs.String())
			}
			return out.Bytes(), nil
		},
	}
}

// audit are the records so far, one JSON object a line.
func (b *behindEnvoy) audit() string {
	b.t.Helper()
	out := must.Get(b.listener("", nil).Audit())(b.t)
	return string(out)
}

// recording is Envoy before a backend that keeps what arrives, with the settings of a case.
func recording(t *testing.T, edits ...string) (*behindEnvoy, *recorder) {
	t.Helper()
	b, rec := startEnvoy(t, edits...), &recorder{}
	b.answers(rec)
	b.start(settings(t))
	return b, rec
}

// recorder is a backend that keeps what arrives and answers by a function.
type recorder struct {
	mu   sync.Mutex
	seen []string
	next http.HandlerFunc
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	if q.UserAgent() != memproxy.UserAgent { // a first start seals the backend
		r.seen = append(r.seen, q.Method+" "+q.RequestURI)
	}
	r.mu.Unlock()
	if r.next != nil {
		r.next(w, q)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"results":[]}`)
}

// callers is a backend whose handler sees what callers send: what memproxy asks at
// a first start, when it seals the backend, may come before or after it.
func callers(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != memproxy.UserAgent {
			h(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"results":[]}`)
	}
}

func (r *recorder) arrived() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.seen
	r.seen = nil
	return out
}

// settings are a case's defaults with changes.
func settings(t *testing.T, kv ...string) extproctest.Settings {
	t.Helper()
	c := must.Get(extproctest.ParseCase([]byte("-- request --\nGET /\n")))(t)
	for i := 0; i+1 < len(kv); i += 2 {
		c.Settings[kv[i]] = kv[i+1]
	}
	return c.Settings
}

const addBody = `{"user_id":"ann","agent_id":"dev","infer":false,"messages":[{"role":"user","content":"likes tea"}]}`

// devCall is a request of the agent.
func devCall(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	return call(t, method, url, "m0sk_dev", body, header...)
}

// soon is how long the tests wait for what should not take long.
const soon = 30 * time.Second
