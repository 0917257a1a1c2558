package app_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/contract"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// inProcess is a transport to a backend in this process.
type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Body == nil {
		q.Body = http.NoBody // as a server sees it
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w.Result(), nil
}

// relay has a handler answer a request, and passes its answer on with another body.
func relay(w http.ResponseWriter, q *http.Request, to http.Handler, change func(body string) string) {
	rec := httptest.NewRecorder()
	to.ServeHTTP(rec, q)
	body := change(rec.Body.String())
	maps.Copy(w.Header(), rec.Header())
	w.Header().Del("Content-Length")
	w.WriteHeader(rec.Code)
	_, _ = io.WriteString(w, body) // the proxy may have disconnected
}

// A process works without a socket: requests to its handlers are gated, jobs run on
// demand, and a stop leaves nothing running.
//
// Proves EDGE-15.
func TestProcessWithoutSockets(t *testing.T) {
	t.Parallel()
	backend := must.Get(embedded.New(embedded.Options{}))(t)
	text := strings.NewReplacer("DIR", t.TempDir(), "UPSTREAM", "http://backend.invalid", "KEY", sha(devToken)).Replace(plain)
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	unwatched(cfg)
	var log lockedBuffer
	a := must.Get(app.New(t.Context(), cfg, app.Options{Log: &log, Getenv: allowing(cfg), Version: "test", Transport: inProcess{backend}, TimeoutFactor: 10}))(t)
	ask := func(listener, method, path, body, key string) got {
		t.Helper()
		q := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		q.Host = "127.0.0.1"
		if body != "" {
			q.Header.Set("Content-Type", "application/json")
		}
		if key != "" {
			q.Header.Set("X-API-Key", key)
		}
		w := httptest.NewRecorder()
		a.Handler(listener).ServeHTTP(w, q)
		return got{status: w.Code, body: w.Body.String()}
	}
	ask("mem0", "POST", "/memories", note, "").want(t, 401, "a stranger")
	ask("mem0", "POST", "/memories", note, devToken).want(t, 200, "a write")
	ask("mem0", "GET", "/memories?user_id=ann", "", devToken).want(t, 200, "a read").has(t, "likes tea")
	ask("admin", "GET", "/readyz", "", "").want(t, 200, "ready")
	expect.Equal(t, a.Handler("nobody"), nil, "a listener of that name")
	expect.OK(t, a.Once(t.Context(), "retention", time.Now()))
	expect.OK(t, a.Close(t.Context()))
}

// golden records a run of the matrix: answers in order, upstream requests and audit
// records sorted. With MATRIX_RECORD=DIR it is written to DIR, so that two commits can
// be compared by diff. Ids, hashes, signatures and times are masked.
type golden struct {
	dir      string // "": nothing is recorded, since masking a full play takes gigabytes and a tenth of its time
	mu       sync.Mutex
	requests []string
	answers  strings.Builder
}

var masked = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16,}|\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)|"memproxy_(sig|meta)":"[^"]*"|-of-nobody-\d+|"used":\d+|\b\d{10,}\b`)

func newGolden() *golden { return &golden{dir: os.Getenv("MATRIX_RECORD")} }

func (g *golden) backend(next http.Handler) *httptest.Server {
	if g.dir == "" {
		return httptest.NewServer(next)
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a truncated body is truncated for the backend, too
		r.Body = io.NopCloser(bytes.NewReader(body))
		g.mu.Lock()
		g.requests = append(g.requests, masked.ReplaceAllString(fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body), "ID"))
		g.mu.Unlock()
		next.ServeHTTP(w, r)
	}))
}

func (g *golden) played(c *contract.Case, plain string) {
	if g.dir == "" {
		return
	}
	fmt.Fprintf(&g.answers, "%s\n\t%s\n", masked.ReplaceAllString(c.String(), "ID"), masked.ReplaceAllString(plain, "ID"))
}

func (g *golden) write(t *testing.T, audit string) {
	if g.dir == "" {
		return
	}
	var records []string
	for line := range strings.Lines(audit) {
		line = regexp.MustCompile(`"(index|trace|span|prev_hash|event_time|time)":("[^"]*"|\d+),?`).ReplaceAllString(line, "")
		records = append(records, masked.ReplaceAllString(line, "ID"))
	}
	slices.Sort(records)
	slices.Sort(g.requests)
	for name, text := range map[string]string{"answers": g.answers.String(), "requests": strings.Join(g.requests, "\n"), "audit": strings.Join(records, "")} {
		expect.OK(t, os.WriteFile(filepath.Join(g.dir, t.Name()+"."+name), []byte(text), 0o600))
	}
}

// An issuer that does not answer is named in the log at the start, in readiness and by
// check; the sidecar stays in service.
//
// Proves CARD-8.
func TestReadinessNamesTheIssuer(t *testing.T) {
	t.Parallel()
	away := serving(t, http.NotFoundHandler())
	const check = `"name":"issuer","ok":true,"degraded":true`
	without := start(t, plain)
	expect.Text(t, without.get("/readyz").want(t, 200).body, "no issuer").Lacks("issuer")
	r := start(t, plain, "log: {level: info}", `  oidc: {issuer: "`+away.URL+`", audience: memproxy}
log: {level: info}`)
	r.get("/readyz").want(t, 200).has(t, check, "status 404 from "+away.URL)
	ring.Until(t, "the log names the issuer", func() bool { return strings.Contains(r.log.String(), "the token issuer is unavailable") })
	file := filepath.Join(r.dir, "memproxy.yaml")
	says(t, 0, "on this machine: tokens whose keys are not known are answered 503 (identity.oidc.issuer "+away.URL+"): identity: the issuer did not answer: status 404 from "+away.URL, "check", "--config", writeFile(t, file, r.conf))
	there := must.Get(config.Parse(file, []byte(strings.ReplaceAll(r.conf, away.URL, newTokenIssuer(t).URL)), func(string) string { return "" }))(t)
	expect.Text(t, strings.Join(must.Get(app.Check(t.Context(), there, func(string) string { return "" }))(t).MachineProblems, "\n"), "an issuer that answers").Lacks("issuer")
}

// A backend that accepts no connections is named on /readyz and by memproxy status, with the
// time since when. The sidecar stays ready: it answers for the backend, and others may work.
func TestUnreachableBackendsAreNamed(t *testing.T) {
	t.Parallel()
	r := start(t, strings.Replace(plain+reviewers()+"\n", `"UPSTREAM"}`, `"UPSTREAM"}
  - {name: away, kind: mem0, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:9"}`, 1))
	r.get("/readyz").want(t, 200).has(t, `"status":"degraded"`, `"name":"backend:mem0","ok":true,"detail":"accepts connections"`,
		`"name":"backend:away","ok":true,"degraded":true,"detail":"dial tcp 127.0.0.1:9: connect: connection refused, since 20`)
	out, _, _ := invoked(map[string]string{review.TokenEnv: reviewToken}, "status", "--admin", r.admin)
	expect.Text(t, out).Has("backend:away: dial tcp 127.0.0.1:9: connect: connection refused, since 20").Lacks("backend:mem0")
}

// A state directory that is removed is not made anew: nothing is served until it is back,
// whichever of the stores in it is the first to refuse.
func TestRemovedStateFailsClosed(t *testing.T) {
	t.Parallel()
	r := start(t, plain)
	state := filepath.Join(r.dir, "state")
	r.do("POST", "/memories", note).want(t, 200)
	must.Do(t, os.Rename(state, state+".away"))
	for range 3 {
		r.do("POST", "/memories", note).want(t, 503).has(t, `.unavailable"`)
	}
	expect.Error(t, r.car.Ledger.Sync(t.Context()), "the ledger notices it by itself, too")
	r.do("POST", "/memories", note).want(t, 503).has(t, `.unavailable"`)
	r.get("/readyz").want(t, 503).has(t, `"name":"audit","ok":false,"detail":"audit: the log's directory was removed`, `"name":"ledger","ok":false`)
	expect.Text(t, r.get("/readyz").body).Times(1, "the log's directory was removed")
	must.Is(t, expect.Err(os.Stat(state)), os.ErrNotExist, "the directory")
	must.Do(t, os.Rename(state+".away", state))
	r.do("POST", "/memories", note).want(t, 200)
}

// A state whose audit log is gone at the start gets a new one, whose first record says so,
// like the program's log and readiness; a first start and the next start do not.
func TestAnAuditLogThatIsGoneIsReported(t *testing.T) {
	t.Parallel()
	const said = "a new audit log begins"
	r := start(t, plain)
	times := func(about string) int {
		t.Helper()
		_, out, _ := invoke(t, "audit", "query", "--dir", filepath.Join(r.dir, "state", "audit"), "--json")
		first, _, _ := strings.Cut(out, "\n")
		expect.Equal(t, strings.Contains(first, said), strings.Contains(out, said), about, "it is the first record")
		return strings.Count(out, said) + strings.Count(r.log.String(), said) + strings.Count(r.get("/readyz").want(t, 200).body, said)
	}
	expect.Equal(t, times("a first start"), 0)
	for _, lost := range []string{"ledger.db", "other"} { // with Postgres there is no ledger.db
		r.stop()
		for _, name := range []string{"audit", lost} {
			must.Do(t, os.RemoveAll(filepath.Join(r.dir, "state", name)))
		}
		r.log = &lockedBuffer{}
		r.run()
		expect.Equal(t, times("without the log and "+lost), 3)
	}
	r.stop()
	r.log = &lockedBuffer{}
	r.run()
	_, out, _ := invoke(t, "audit", "query", "--dir", filepath.Join(r.dir, "state", "audit"), "--json")
	expect.Text(t, r.log.String()+r.get("/readyz").body).Lacks(said)
	expect.Text(t, out).Times(1, said)
	r.stop()
	must.Do(t, os.Remove(filepath.Join(r.dir, "state", "audit", "checkpoint")))
	cfg := unwatched(must.Get(config.Parse("memproxy.yaml", []byte(r.conf), os.Getenv))(t))
	_, err := assemble(t.Context(), cfg, app.Options{Log: r.log, Getenv: allowing(cfg)})
	must.Is(t, err, audit.ErrCorrupt, "a log without its checkpoint")
	expect.Text(t, r.log.String()).Lacks(said)
}

// A real sidecar lists its stores in readiness; liveness probes none.
//
// Proves CARD-8.
func TestReadinessNamesEveryStore(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	ready := r.get("/readyz")
	for _, name := range []string{"audit", "ledger", "review", "rules"} {
		ready.want(t, 200, name).has(t, `"name":"`+name+`","ok":true`)
	}
	must.Do(t, r.car.Ledger.Close()) // simulates an outage
	ring.Until(r.t, "the ledger is named", func() bool { return strings.Contains(r.get("/readyz").body, `"name":"ledger","ok":false`) })
	r.get("/readyz").want(t, 503).has(t, `"name":"audit","ok":true`)
	r.get("/healthz").want(t, 200, "liveness")
	expect.Error(t, r.car.Close(t.Context()), "a stop without a ledger, where the chain ends cannot be anchored")
	r.car = nil
}
