package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// pausing is a backend in the same process. Before it serves one of the next requests with
// these words in its path, or before it answers that request, something else happens.
type pausing struct {
	http.Handler
	mu   sync.Mutex
	next pause
}

// pause is what happens at a request; an error is the request's.
type pause struct {
	method, at string
	nth        int                         // of such requests; 0: the next
	do         func(context.Context) error // nil: nothing
	served     bool                        // it happens before the answer
}

// at sets what happens at the next request of a kind.
func (s *pausing) at(p pause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = p
}

// waits reports whether what is to happen did not yet.
func (s *pausing) waits() (pause, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, s.next.do != nil
}

// take returns what happens before this request is served, and before it is answered; it
// does not happen again.
func (s *pausing) take(q *http.Request) (before, after func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, nothing := s.next, func(context.Context) error { return nil }
	if p.do == nil || q.Method != p.method || !strings.Contains(q.URL.Path, p.at) {
		return nothing, nothing
	}
	if s.next.nth--; s.next.nth > 0 {
		return nothing, nothing
	}
	s.next.do = nil
	if p.served {
		return nothing, p.do
	}
	return p.do, nothing
}

func (s *pausing) RoundTrip(q *http.Request) (*http.Response, error) {
	before, after := s.take(q)
	if err := before(q.Context()); err != nil {
		return nil, err
	}
	if q.Body == nil {
		q.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, q)
	return w.Result(), after(q.Context())
}

// inBubble runs a test, or a part of it that has a name, in a bubble, in which a sidecar can
// start.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // the runtime's signal goroutine starts outside of the bubble
	defer signal.Stop(heard)
	if name == "" {
		synctest.Test(t, f)
		return
	}
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// raced is a sidecar in a bubble, in front of an backend that pauses.
type raced struct {
	*rig
	back  *pausing
	begin func() // starts a process
}

// kills keeps what a kill of the process would leave, for revives. What is being written is
// written first: while files are copied one by one, an entry could leave one for another.
func (r *raced) kills() {
	synctest.Wait()
	r.rig.kills()
}

type call struct{ method, path, body string }

func startRaced(t *testing.T, conf string, backend http.Handler, change ...string) *raced {
	t.Helper()
	r := &raced{rig: &rig{t: t, dir: ring.Dir(t), log: &lockedBuffer{}}, back: &pausing{Handler: backend}}
	const nowhere = "http://backend.invalid"
	text := strings.NewReplacer(append(replacements(change...), "DIR/policies", "", "DIR", r.dir, "LETTA", nowhere, "UPSTREAM", nowhere, "KEY", sha(devToken))...).Replace(strings.Replace(withPeople(conf), "trust: human,", "trust: human, roles: [memproxy-forget],", 1)) + reviewers()
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	r.begin = func() {
		r.car = must.Get(assemble(context.Background(), unwatched(cfg), app.Options{Log: r.log, Getenv: allowing(cfg), Version: "test", Transport: r.back, TimeoutFactor: 10, Ticker: unpaced}, app.Process{Uptime: believed(nil)}))(t)
	}
	r.begin()
	t.Cleanup(r.stop)
	return r
}

func (r *raced) do(c call, who string) got { return r.serve(context.Background(), "mem0", c, as(who)) }

// reviews asks the review API.
func (r *raced) reviews(path, body string) got {
	return r.serve(context.Background(), "admin", call{"POST", path, body}, []string{"Authorization", "Bearer " + reviewToken})
}

func (r *raced) serve(ctx context.Context, listener string, c call, header []string) got {
	r.t.Helper()
	q := httptest.NewRequestWithContext(ctx, c.method, "http://127.0.0.1"+c.path, strings.NewReader(c.body))
	for ; len(header) > 0; header = header[2:] {
		q.Header.Set(header[0], header[1])
	}
	q.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.car.Handler(listener).ServeHTTP(w, q)
	return got{status: w.Code, header: w.Header(), body: w.Body.String()}
}

// meanwhile has something happen before the backend serves the next such request.
func (r *raced) meanwhile(method, at string, do func()) {
	r.hook(method, at, do, false)
}

// afterServing has something happen after the backend served the next such request, and
// before its answer arrives.
func (r *raced) afterServing(method, at string, do func()) {
	r.hook(method, at, do, true)
}

func (r *raced) hook(method, at string, do func(), served bool) {
	r.back.at(pause{method: method, at: at, served: served, do: func(context.Context) error { do(); return nil }})
}

// happened fails the test if what was to happen meanwhile did not.
func (r *raced) happened() {
	r.t.Helper()
	p, waits := r.back.waits()
	expect.Equal(r.t, !waits, true, "no", p.method, "of", p.at, "came")
}
