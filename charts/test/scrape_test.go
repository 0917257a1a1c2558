package charttest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// onlyWhenBroken are metrics that a healthy sidecar never counts. That they
// are exported under their names is shown by telemetry.TestMetricsAreTheCatalogue.
var onlyWhenBroken = []string{"memproxy_ledger_errors_total", "memproxy_reloads_total", inject.MetricReviews, "up"}

// elsewhere reports whether a metric is not one that a healthy sidecar shows.
func elsewhere(name string) bool {
	_, fleet := ofFleet[name]
	return fleet || slices.Contains(onlyWhenBroken, name)
}

const sidecarConfig = `profile: production
state: DIR/state
admin: {listen: "ADMIN"}
backends:
  - {name: mem0, kind: mem0, listen: "LISTEN", upstream: "UPSTREAM"}
identity:
  keys:
    - {sha256: "KEY", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: [dev], users: [ann]}
budgets:
  default: {writes_per_hour: 5}
  redis: {url: "redis://127.0.0.1:1/0", degraded_share: 1}
telemetry: {otlp: "COLLECTOR"}
`

// The binary itself is started, asked for every sort of thing, and scraped:
// what it shows is what the queries ask for, name by name and label by label.
// Proves CARD-10.
func TestTheBinaryExportsWhatIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	bin := binary(t, dir)
	base, admin, upstream := startSidecar(t, dir, bin)
	post := func(base, path, body string) {
		q := must.Get(http.NewRequest(http.MethodPost, base+path, strings.NewReader(body)))(t)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-API-Key", "k")
		resp := must.Get(http.DefaultClient.Do(q))(t)
		resp.Body.Close()
	}
	ask := func(path, body string) { post(base, path, body) }
	const note = `{"user_id":"ann","agent_id":"dev","infer":false,"metadata":{"confidence":1},"messages":[{"role":"user","content":"likes tea"}]}`
	ask("/memories", strings.Replace(note, `"dev"`, `"ceo"`, 1)) // deny
	for range 8 {                                                // amend, until the budget refuses
		ask("/memories", note)
	}
	// Written around the gate, for an agent that this caller may not name.
	post(upstream, "/memories", strings.Replace(note, `"dev"`, `"ceo"`, 1))
	ask("/search", `{"query":"tea","filters":{"user_id":"ann"}}`)

	var shown map[string][]string
	asked := askedFor(t)
	var missing []string
	t.Cleanup(func() {
		for _, name := range missing {
			t.Logf("%s asks for %s, which the binary does not export", asked[name], name)
		}
	})
	ring.Until(t, "all series", func() bool {
		shown, missing = scrape(t, admin), nil
		for name := range asked {
			if _, ok := shown[name]; !ok && !elsewhere(name) {
				missing = append(missing, name)
			}
		}
		return missing == nil
	})
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		names, ok := shown[name]
		if !ok {
			continue // elsewhere
		}
		want := slices.Sorted(slices.Values(catalogue()[name]))
		expect.List(t, names, want, name, "has the labels", "the catalogue says")
	}
	for name := range shown {
		if _, ok := catalogue()[name]; !ok {
			t.Errorf("the binary exports %s, which is in no catalogue", name)
		}
	}
}

// binary builds memproxy.
func binary(t *testing.T, dir string) string {
	t.Helper()
	bin := filepath.Join(dir, "memproxy")
	build := exec.Command("go", "build", "-o", bin, "./cmd/memproxy")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// askedFor is every metric of the queries, with a place that asks for it.
func askedFor(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, q := range queries(t) {
		for _, name := range regexp.MustCompile(`\b(memproxy_\w+|up)\b`).FindAllString(q.expr, -1) {
			out[name] = q.where
		}
	}
	return out
}

func startSidecar(t *testing.T, dir, bin string) (base, admin, upstream string) {
	t.Helper()
	engine := must.Get(embedded.New(embedded.Options{}))(t)
	up := httptest.NewServer(engine)
	t.Cleanup(up.Close)
	listen, adminAddr := freeport.Addr(t), freeport.Addr(t)
	collector := "http://" + freeport.Addr(t) // nobody answers there
	conf := strings.NewReplacer("DIR", dir, "ADMIN", adminAddr, "LISTEN", listen, "UPSTREAM", up.URL, "COLLECTOR", collector,
		"KEY", fmt.Sprintf("%x", sha256.Sum256([]byte("k")))).Replace(sidecarConfig)
	path := filepath.Join(dir, "memproxy.yaml")
	must.Do(t, os.WriteFile(path, []byte(conf), 0o600))
	launch(t, bin, "http://"+adminAddr, "serve", "--config", path)
	return "http://" + listen, "http://" + adminAddr, up.URL
}

// launch runs the binary until the test ends, and returns when it is ready.
func launch(t *testing.T, bin, admin string, args ...string) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_METRIC_EXPORT_INTERVAL=200")
	var log bytes.Buffer
	cmd.Stderr = &log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	ring.Until(t, "its start", func() bool {
		resp, err := http.Get(admin + "/readyz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
}

var sample = regexp.MustCompile(`(?m)^(memproxy_\w+)(?:\{(.*)\})? `)

// scrape reads /metrics: the names of memproxy's series, each with its labels.
func scrape(t *testing.T, admin string) map[string][]string {
	t.Helper()
	resp := must.Get(http.Get(admin + "/metrics"))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	out := map[string][]string{}
	for _, m := range sample.FindAllStringSubmatch(string(b), -1) {
		var names []string
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
			names = append(names, l[1])
		}
		slices.Sort(names)
		out[m[1]] = names
	}
	return out
}
