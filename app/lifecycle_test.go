package app_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
)

// goroutines lists the running goroutines by where they started, except the test's and
// the runtime's (which keeps one for signals).
func goroutines() []string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	begun := regexp.MustCompile(`(?m)^created by (\S+)`)
	var out []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		m := begun.FindStringSubmatch(g)
		if m == nil || strings.HasPrefix(m[1], "testing.") || strings.HasPrefix(m[1], "net/http/httptest.") || strings.HasPrefix(m[1], "runtime.") || strings.HasPrefix(m[1], "os/signal.") {
			continue
		}
		out = append(out, m[1])
	}
	slices.Sort(out)
	return out
}

// nothingLeft waits until no goroutine runs besides those before.
func nothingLeft(t *testing.T, before []string) {
	t.Helper()
	var left []string
	defer func() {
		expect.Len(t, left, 0, "still running", strings.Join(left, "\n"))
	}()
	ring.UntilIn(t, 10*time.Second, "the end of all goroutines", func() bool {
		http.DefaultClient.CloseIdleConnections()
		left = goroutines()
		for _, g := range before {
			if i := slices.Index(left, g); i >= 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
		return len(left) == 0
	})
}

// After a stop no loop, request or connection of the sidecar remains, whatever it did
// before, on both listeners.
//
// Proves EDGE-14, CARD-8.
func TestNothingRunsAfterAStop(t *testing.T) {
	hook := serving(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	up := must.Get(embedded.New(embedded.Options{}))(t)
	back := serving(t, up)
	before := goroutines()
	r := &rig{t: t, dir: ring.Dir(t), log: &lockedBuffer{}}
	r.conf = strings.NewReplacer("DIR", r.dir, "UPSTREAM", back.URL, "KEY", sha(devToken), "REVIEWER", sha(reviewToken), "HOOK", hook.URL, "POLICIES", policyDir(t, holdingPolicy)).Replace(plain + `
policy: {dir: "POLICIES"}
memories: {sweep: 1h}
screening: {baseline: {}}
review:
  reviewers: [{id: eve, sha256: "REVIEWER", roles: [view, review, content], tenants: "*"}]
  webhook: {url: "HOOK", key: "a webhook's key of 32 characters"}
`)
	r.run()
	r.stopped(func() {
		must.Do(t, r.car.ListenExtproc("unix:"+filepath.Join(r.dir, "x.sock"), false))
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 5 {
					r.do("POST", "/memories", noted(fmt.Sprintf("Ann likes tea number %d of %d.", j, i)))
					r.do("GET", "/memories?user_id=ann", "")
					r.do("POST", "/v3/memories/add/", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`)
				}
			})
		}
		all.Wait()
	})
	nothingLeft(t, before)
}

// stopped calls do and stops the sidecar, whose log must not report use of closed
// resources.
func (r *rig) stopped(do func()) {
	r.t.Helper()
	do()
	r.stop()
	for _, closed := range []string{"closed", "panic", "audit note lost"} {
		for line := range strings.SplitSeq(r.log.String(), "\n") {
			if strings.Contains(line, closed) && !strings.Contains(line, "level=DEBUG") {
				r.t.Errorf("something outlived what it works with: %s", line)
			}
		}
	}
}

// slowBackend answers writes on demand.
type slowBackend struct {
	http.Handler
	arrived chan struct{}
	let     chan struct{}
}

func (b *slowBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		b.arrived <- struct{}{}
		select {
		case <-b.let:
		case <-r.Context().Done():
			return
		}
	}
	b.Handler.ServeHTTP(w, r)
}

func slowed(t *testing.T, r *rig) *slowBackend {
	t.Helper()
	b := &slowBackend{Handler: r.back.handler(), arrived: make(chan struct{}, 16), let: make(chan struct{})}
	r.back.handle(b)
	return b
}

// A stop waits for writes pending at a slow backend: callers get their answers, the log
// the outcomes, and the ledger the owners.
//
// Proves EDGE-15, CARD-7.
func TestStopWaitsForWrites(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	b := slowed(t, r)
	answers := make(chan got, 4)
	for i := range 4 {
		go func() { answers <- r.do("POST", "/memories", noted(fmt.Sprintf("Ann likes tea number %d.", i))) }()
	}
	for range 4 {
		<-b.arrived
	}
	time.AfterFunc(300*time.Millisecond, func() { close(b.let) })
	r.stopped(func() {})
	for range 4 {
		(<-answers).want(t, 200)
	}
	r.run()
	n := strings.Count(r.audit("--type", "outcome"), `"status":200`)
	expect.Equal(t, n >= 4, true, n, "outcomes of 4 on record")
	expect.Equal(t, strings.Count(r.listed(), "likes tea number"), 4)
}

// A backend that never answers does not delay a stop: requests are cut off at the end
// of the drain, which is recorded before the log closes.
//
// Proves EDGE-15, EDGE-14.
func TestStopCutsOffHangingRequests(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	b := slowed(t, r)
	over := make(chan error, 1)
	go func() {
		q, _ := http.NewRequest("POST", r.base+"/memories", strings.NewReader(note)) // fixed
		q.Header.Set("X-API-Key", devToken)
		resp, err := http.DefaultClient.Do(q)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		over <- err
	}()
	<-b.arrived
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := r.car.Close(ctx)
	r.car = nil
	expect.ErrorHas(t, err, "aborted", "the stop")
	<-over
	expect.Text(t, r.audit("--type", "outcome"), "what was cut off is not on record", r.log.String()).Has(`"type":"outcome"`)
	ran(t, "audit", "verify", "--dir", filepath.Join(r.dir, "state", "audit")).want(t, 0, "the log")
}

// The outcome of an approved write at a slow backend is recorded by the sender before
// it stops, so that the next process need not look it up.
//
// Proves EDGE-15, MFW-7.
func TestStopWaitsForApprovedWrites(t *testing.T) {
	t.Parallel()
	r := holding(t)
	id := heldID(t, r.do("POST", "/v3/memories/add/", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`))
	b := slowed(t, r)
	r.review(id, true)
	<-b.arrived
	time.AfterFunc(500*time.Millisecond, func() { close(b.let) })
	r.stopped(func() {})
	r.run()
	h, err := r.car.Ledger.Holds.Get(context.Background(), id)
	expect.Equal(t, err == nil && h.State == memproxy.HoldDone, true, h, err)
	expect.Equal(t, strings.Count(r.do("GET", "/memories?user_id=bob", "").body, "Bob sails."), 1, "written")
}

// Queued work of slow stores is finished before they close, each stage within its own
// time.
//
// Proves EDGE-15.
func TestStopWaitsForSlowStores(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	var done atomic.Int32
	for i := range 20 {
		r.car.Group.Own(stageProxies, func(context.Context) error {
			err := r.car.Ledger.Commit(context.Background(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprint("m", i), Scope: memproxy.Scope{Tenant: "acme", User: "ann"}, Actor: "agent:dev", Trust: memproxy.TrustAuthenticated}}})
			if err == nil {
				done.Add(1)
			}
			return err
		})
	}
	r.stopped(func() {})
	r.run()
	rows, err := ledger.ByID(context.Background(), r.car.Ledger, "mem0", memproxy.TargetMemory, "m0", "m19")
	expect.Equal(t, err == nil && len(rows) == 2 && done.Load() == 20, true, done.Load(), "of 20 stored", rows, err)
}

// What a collector that never answers was not sent is lost, and the stop succeeds.
//
// Proves CARD-6.
func TestStopDoesNotNeedTheCollector(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	otlp := serving(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	r := startRig(&rig{t: t, hasty: true}, plain, "log: {level: info}", `telemetry: {otlp: "`+otlp.URL+`"}`)
	r.do("GET", "/memories?user_id=ann", "", "X-API-Key", devToken).want(t, 200)
	r.stop() // it checks the error
}

// The log of a start lists version, profile, addresses, reviewers, disabled controls,
// and whether each backend is reachable.
//
// Proves EDGE-18.
func TestStartIsLogged(t *testing.T) {
	t.Parallel()
	up := serving(t, http.NotFoundHandler())
	other := serving(t, http.NotFoundHandler())
	encrypted := httptest.NewTLSServer(http.NotFoundHandler())
	defer encrypted.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	writeFile(t, roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: encrypted.Certificate().Raw})))
	closed := freeport.Addr(t)
	policies := policyDir(t, holdingPolicy)
	writeFile(t, filepath.Join(policies, "bundle.yaml"), "{disable: [field.name], shadow: [screen.hostile]}")
	text := fmt.Sprintf(`profile: production
state: %s
admin: {listen: "127.0.0.1:0"}
backends:
  - {name: here, kind: mem0, listen: "127.0.0.1:0", upstream: "%s"}
  - {name: away, kind: mem0, listen: "127.0.0.1:0", upstream: "http://%s"}
  - {name: plain, kind: mem0, listen: "127.0.0.1:0", upstream: "https://%s"}
  - {name: tls, kind: mem0, listen: "127.0.0.1:0", upstream: "%s", tls: {upstream_ca: %s}}
identity:
  keys: [{sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: [dev], users: [ann]}]
memories: {sweep: 0s, seal: false}
policy: {dir: "%s"}
`, ring.Dir(t), up.URL, closed, other.Listener.Addr(), encrypted.URL, roots, sha("k"), policies)
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	log := &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- app.Serve(ctx, cfg, app.Options{Log: log, Getenv: allowing(cfg), Version: "v1.2.3", TimeoutFactor: 10}, nil)
	}()
	for _, want := range []string{
		`"msg":"started","version":"v1.2.3","profile":"production","switched_off":["memories.new.configured","memories.seal","memories.sweep"`,
		`"policy field.name","policy screen.hostile"]`,
		`"msg":"listening","name":"here"`, `"msg":"listening","name":"admin"`, `held writes are reviewed by`,
		`"msg":"the backend is reachable","backend":"here"`, `is unreachable; requests to it are answered 502","backend":"away","setting":"backends[].upstream"`,
		`is unreachable; requests to it are answered 502","backend":"plain","setting":"backends[].upstream","error":"tls: first record does not look like a TLS handshake"`, `"msg":"the backend is reachable","backend":"tls"`,
	} {
		ring.Until(t, want, func() bool { return strings.Contains(log.String(), want) })
	}
	cancel()
	expect.OK(t, <-done, log.String())
}
