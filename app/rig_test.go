package app_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/proxy"
)

// rig is the whole sidecar in this process, in front of the embedded backend.
type rig struct {
	t     *testing.T
	dir   string
	car   *process
	clock func() time.Time // nil: the real one
	pace  group.Ticker     // nil: no job runs by itself, however long the test takes
	log   *lockedBuffer
	base  string
	admin string
	back  *recordingBackend
	up    string               // the backend's address
	since func() time.Duration // uptime of the process; nil: two hours at the start
	conf  string               // the configuration's text
	key   string               // bearer token of the requests; "" is devToken
	// seals: the sidecar seals and sweeps automatically, as in production. Otherwise
	// the backend gets only the test's requests.
	seals  bool
	noWait bool   // suspects are not checked twice: the test waits for pending writes
	file   string // the configuration file to read and watch; "": none
	hasty  bool   // use the product's deadlines; otherwise they are long enough for a busy machine
	before func() // runs after the backend starts, before the sidecar
}

// process is a sidecar's process and its inside.
type process struct {
	*app.App
	app.Process
	cfg   *config.Config
	clock func() time.Time
}

// assemble builds a process, of whose inside a test may set something.
func assemble(ctx context.Context, cfg *config.Config, opt app.Options, in ...app.Process) (*process, error) {
	p := &process{cfg: cfg, clock: opt.Clock}
	if len(in) > 0 {
		p.Process = in[0]
	}
	if p.clock == nil {
		p.clock = time.Now
	}
	var err error
	if p.App, err = app.NewProcess(ctx, cfg, opt, &p.Process); err != nil {
		return nil, err
	}
	for name := range p.Jobs.All() {
		if slices.Contains(atStart, name) {
			_ = p.Once(ctx, name, p.clock()) // what fails now is tried again, as after the round at the start
		}
	}
	return p, nil
}

// atStart are the jobs that begin with a round. A process whose first rounds are over does
// nothing by itself while a test claims a write, counts requests or sets a clock.
var atStart = []string{"ageing", "anchors", "outcomes", "reconsider", "records", "replays", "retention"}

// The stages of a stop to which tests add something, in order.
const (
	stageListeners = iota
	stageSending
	stageLoops
	stageProxies
)

// client is the proxy's own client of the backend.
func (p *process) client() *proxy.BackendClient {
	return p.Handler("mem0").(*proxy.Proxy).BackendClient()
}

type lockedBuffer = ring.Buffer

// recordingBackend is the embedded backend with a record of its requests.
type recordingBackend struct {
	mu   sync.Mutex
	to   http.Handler
	seen []http.Header
	raw  bytes.Buffer
}

func (b *recordingBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.seen = append(b.seen, r.Header.Clone())
	b.raw.Write(body)
	h := b.to
	b.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.ServeHTTP(w, r)
}

// handle replaces the backend, also while it serves, and returns the replaced one.
func (b *recordingBackend) handle(h http.Handler) http.Handler {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.to
	b.to = h
	return old
}

// handler returns the present backend.
func (b *recordingBackend) handler() http.Handler {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.to
}

func (b *recordingBackend) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.seen)
}

func sha(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }

// withMem0 and withLetta begin a configuration, up to the keys of its callers.
const (
	withMem0 = `profile: production
state: DIR/state
admin: {listen: "127.0.0.1:0"}
backends:
  - {name: mem0, kind: mem0, listen: "127.0.0.1:0", upstream: "UPSTREAM"}
identity:
  keys:
`
	withLetta = `profile: production
state: DIR/state
admin: {listen: "127.0.0.1:0"}
backends:
  - {name: mem0, kind: letta, listen: "127.0.0.1:0", upstream: "LETTA"}
identity:
  keys:
`
)

// plain is a configuration with one agent; %UP, %DIR and others are filled in.
const plain = withMem0 + `    - {sha256: "KEY", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, roles: [dev], acts_as: [dev], users: [ann]}
log: {level: info}
`

// withKey adds a caller to a configuration, before the others.
func withKey(conf, key, caller string) string {
	return strings.Replace(conf, "  keys:\n", "  keys:\n    - {sha256: \""+sha(key)+"\", "+caller+"}\n", 1)
}

const devToken = "m0-canary-key-5f1d"

// allowing is an environment that permits settings which weaken production, as most
// tests are not about them.
func allowing(cfg *config.Config) func(string) string {
	return func(name string) string {
		if name != config.UnsafeEnv {
			return os.Getenv(name)
		}
		var names []string
		for _, s := range cfg.Unsafe() {
			names = append(names, s.Name)
		}
		return strings.Join(names, ",")
	}
}

// start runs the sidecar with a configuration; change edits its text.
func start(t *testing.T, conf string, change ...string) *rig {
	t.Helper()
	return startAt(t, nil, conf, change...)
}

// startAt is start with an injected clock.
func startAt(t *testing.T, clock func() time.Time, conf string, change ...string) *rig {
	t.Helper()
	return startRig(&rig{t: t, clock: clock}, conf, change...)
}

// startRig is startAt for a prepared rig.
func startRig(r *rig, conf string, change ...string) *rig {
	t := r.t
	t.Helper()
	b := must.Get(embedded.New(embedded.Options{}))(t)
	r.dir, r.log, r.back = stateDir(t), &lockedBuffer{}, &recordingBackend{to: b}
	up := serving(t, r.back)
	r.up = up.URL
	text := strings.NewReplacer(change...).Replace(conf)
	if !strings.Contains(text, "sessions:") { // most tests cause more rejections than lock a caller
		text += "sessions: {principal_strikes: 100}\n"
	}
	text = strings.NewReplacer("DIR", r.dir, "UPSTREAM", up.URL, "KEY", sha(devToken)).Replace(text)
	r.conf = text
	if r.before != nil {
		r.before()
	}
	r.run()
	return r
}

// unwatched disables the sidecar's own requests to the backend unless the file
// configures them.
func unwatched(cfg *config.Config) *config.Config {
	off := false
	cfg.Memories.Seal = &off
	for _, s := range cfg.Settings() {
		switch {
		case s.Line != 0:
		case s.Name == "memories.sweep":
			cfg.Memories.Sweep = new(config.Duration)
		case s.Name == "memories.validate":
			cfg.Memories.Validate = new(config.Duration)
		}
	}
	return cfg
}

// believed is the uptime of a process that trusts its clock.
func believed(clock func() time.Time) func() time.Duration {
	if clock == nil {
		clock = time.Now
	}
	start := clock()
	return func() time.Duration { return 2*time.Hour + clock().Sub(start) }
}

// unpaced is a ticker that ticks only where directories are read again, each second or
// more often: what waits there for an edit waits for a tick.
func unpaced(every time.Duration) (<-chan time.Time, func()) {
	if every > time.Second {
		return nil, func() {}
	}
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// run assembles the configured sidecar and starts its listeners.
func (r *rig) run() {
	r.t.Helper()
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(r.conf), os.Getenv))(r.t)
	if r.file != "" {
		writeFile(r.t, r.file, r.conf)
	}
	if !r.seals {
		unwatched(cfg)
	}
	opt := app.Options{File: r.file, Log: r.log, Getenv: allowing(cfg), Version: "test", Clock: r.clock, Ticker: r.pace, TimeoutFactor: 10}
	in := app.Process{Uptime: r.since, Pace: integrity.Pace{Patience: time.Minute, Rate: 1e6, Slow: integrity.DefaultPace.Slow}}
	if opt.Ticker == nil {
		opt.Ticker = unpaced
	}
	if r.noWait {
		in.Pace = integrity.Pace{Rate: 1e6, Slow: 1e6}
	}
	if in.Uptime == nil {
		in.Uptime = believed(r.clock)
	}
	if r.hasty {
		opt.TimeoutFactor = 0
	}
	r.car = must.Get(assemble(context.Background(), cfg, opt, in))(r.t)
	must.Do(r.t, r.car.Listen())
	r.t.Cleanup(func() { r.stop() })
	r.base, r.admin = "http://"+r.car.Addr("mem0"), "http://"+r.car.Addr("admin")
}

// listenBoth starts the HTTP listeners and Envoy's processor.
func (r *rig) listenBoth(authorize bool) error {
	if err := r.car.Listen(); err != nil {
		return err
	}
	return r.car.ListenExtproc("127.0.0.1:0", authorize)
}

func (r *rig) stop() {
	if r.car == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ring.Limit)
	defer cancel()
	expect.OK(r.t, r.car.Close(ctx))
	r.car = nil
}

// once runs a round of a job at a time, and waits for it.
func (r *rig) once(job string, now time.Time) {
	r.t.Helper()
	must.Do(r.t, r.car.Once(context.Background(), job, now), job)
}

func (r *rig) do(method, path, body string, header ...string) got {
	r.t.Helper()
	q := must.Get(http.NewRequest(method, r.base+path, strings.NewReader(body)))(r.t)
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	q.Header.Set("X-API-Key", cmp.Or(r.key, devToken))
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Del(header[i])
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	return r.send(http.DefaultClient, q)
}

func (r *rig) send(client *http.Client, q *http.Request) got {
	r.t.Helper()
	resp := must.Get(client.Do(q))(r.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(r.t)
	return got{status: resp.StatusCode, header: resp.Header, body: string(b)}
}

// get sends a GET to the admin listener.
func (r *rig) get(path string) got {
	r.t.Helper()
	q := must.Get(http.NewRequest(http.MethodGet, r.admin+path, nil))(r.t)
	return r.send(http.DefaultClient, q)
}

const note = `{"user_id":"ann","agent_id":"dev","infer":false,"messages":[{"role":"user","content":"likes tea"}]}`
