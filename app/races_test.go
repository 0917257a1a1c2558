package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// pausing is a backend in the same process. Before it serves the next request with
// these words in its path, or before it answers that request, something else happens.
type pausing struct {
	http.Handler
	mu   sync.Mutex
	next pause
}

// pause is what happens at a request.
type pause struct {
	method, at string
	do         func() // nil: nothing
	served     bool   // it happens before the answer
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

// take returns what happens at this request, which then does not happen again.
func (s *pausing) take(q *http.Request) (do func(), served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.next
	if p.do == nil || q.Method != p.method || !strings.Contains(q.URL.Path, p.at) {
		return func() {}, p.served
	}
	s.next.do = nil
	return p.do, p.served
}

func (s *pausing) RoundTrip(q *http.Request) (*http.Response, error) {
	f, served := s.take(q)
	if !served {
		f()
	}
	if q.Body == nil {
		q.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, q)
	if served {
		f()
	}
	return w.Result(), nil
}

// inBubble runs a test in a bubble, in which a sidecar can start.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // the runtime's signal goroutine starts outside of the bubble
	defer signal.Stop(heard)
	synctest.Test(t, f)
}

// raced is a sidecar in a bubble, in front of an backend that pauses.
type raced struct {
	*rig
	back  *pausing
	begin func() // starts a process
}

// kills keeps what a kill of the process would leave, for restart. What is being written is
// written first: while files are copied one by one, an entry could leave one for another.
func (r *raced) kills() {
	synctest.Wait()
	copied(r.t, filepath.Join(r.dir, "state"), filepath.Join(r.dir, "killed"))
}

// restart stops the process, and starts another with what was left of the killed one.
func (r *raced) restart() {
	r.t.Helper()
	r.stop()
	state := filepath.Join(r.dir, "state")
	must.Do(r.t, os.Rename(state, state+".over"))
	must.Do(r.t, os.Rename(filepath.Join(r.dir, "killed"), state))
	r.begin()
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

func (r *raced) do(c call, who string) got { return r.serve("mem0", c, as(who)) }

// reviews asks the review API.
func (r *raced) reviews(path, body string) got {
	return r.serve("admin", call{"POST", path, body}, []string{"Authorization", "Bearer " + reviewToken})
}

func (r *raced) serve(listener string, c call, header []string) got {
	r.t.Helper()
	q := httptest.NewRequestWithContext(context.Background(), c.method, "http://127.0.0.1"+c.path, strings.NewReader(c.body))
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
	r.back.at(pause{method: method, at: at, do: do})
}

// afterServing has something happen after the backend served the next such request, and
// before its answer arrives.
func (r *raced) afterServing(method, at string, do func()) {
	r.back.at(pause{method: method, at: at, do: do, served: true})
}

// happened fails the test if what was to happen meanwhile did not.
func (r *raced) happened() {
	r.t.Helper()
	if p, waits := r.back.waits(); waits {
		r.t.Errorf("no %s of %s came", p.method, p.at)
	}
}
