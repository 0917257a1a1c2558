//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-9: without a processor nothing passes, memory or not; with it
// back, everything does.
func TestEnvoyProcessorDownAndUp(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t)
	rec := &recorder{}
	b.answers(rec)
	s := settings(t)
	refused := func(when string) {
		t.Helper()
		for _, path := range []string{"/memories", "/v1/stats/"} {
			method := http.MethodGet
			if path == "/memories" {
				method = http.MethodPost
			}
			devCall(t, method, "http://"+b.mem0+path, addBody).want(t, 503, when, path)
		}
		expect.Len(t, rec.arrived(), 0, when)
	}
	refused("before the first start")
	b.start(s)
	devCall(t, "POST", "http://"+b.mem0+"/memories", addBody).want(t, 200)
	rec.arrived()
	b.memproxy.kill()
	refused("after kill -9")
	b.restart(s)
	devCall(t, "POST", "http://"+b.mem0+"/memories", addBody).want(t, 200, "after a restart")
	expect.List(t, rec.arrived(), []string{"POST /memories"}, "arrived")
}

// foreignDelete is a delete whose ruling waits for the backend: it asks whose
// the memory is.
const foreignDelete = "/memories/00000000-0000-4000-8000-00000000aaaa"

// held answers questions about a memory only when it is let.
func held(rec *recorder) (asked, let chan struct{}) {
	asked, let = make(chan struct{}, 8), make(chan struct{})
	rec.next = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet && r.URL.Path == foreignDelete {
			asked <- struct{}{}
			select {
			case <-let:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, `{"id":"00000000-0000-4000-8000-00000000aaaa","memory":"x","user_id":"ann"}`)
			return
		}
		fmt.Fprint(w, `{"message":"Memory deleted successfully"}`)
	}
	return asked, let
}

// Proves CARD-9: a processor that is too slow lets nothing pass.
func TestEnvoyProcessorSlow(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t, "message_timeout: 40s", "message_timeout: 0.3s")
	rec := &recorder{}
	b.answers(rec)
	_, let := held(rec)
	defer close(let)
	b.start(settings(t))
	got := devCall(t, "DELETE", "http://"+b.mem0+foreignDelete, "")
	expect.That(t, got.status == 503 || got.status == 504, "%d %s", got.status, got.body)
	expect.That(t, !slices.Contains(rec.arrived(), "DELETE "+foreignDelete), "it arrived")
}

// Proves CARD-9: what is in flight when the processor is told to stop is
// finished, and what comes later is refused.
func TestEnvoyProcessorDrains(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t)
	rec := &recorder{}
	b.answers(rec)
	asked, let := held(rec)
	b.start(settings(t))
	done := make(chan answer, 1)
	go func() {
		a, err := tryCall("DELETE", "http://"+b.mem0+foreignDelete, "m0sk_dev", "")
		if err != nil {
			a.body = err.Error()
		}
		done <- a
	}()
	<-asked
	must.Do(t, b.memproxy.cmd.Process.Signal(syscall.SIGTERM))
	waitFor(t, "the processor refusing new streams", func() bool {
		a, err := tryCall("GET", "http://"+b.mem0+"/v1/ping/", "m0sk_dev", "")
		return err == nil && a.status == 503
	})
	close(let)
	select {
	case got := <-done:
		got.want(t, 200)
	case <-time.After(soon):
		t.Error("the request in flight was never answered")
	}
	b.memproxy.stop()
	expect.Equal(t, b.memproxy.cmd.ProcessState.ExitCode(), 0, "memproxy ended with")
	log := b.audit()
	expect.That(t, strings.Contains(log, `"outcome":{"memories":["00000000-0000-4000-8000-00000000aaaa"],"status":200}`), "no outcome in\n%s", tail(log, 2000))
}

// chunked hides a body's length.
type chunked struct{ io.Reader }

// Proves CARD-9: a body over a limit is refused in the backend's dialect and
// recorded, whoever finds out: the length says so, memproxy counts, or Envoy's
// own buffer is full.
func TestEnvoyBodyOverTheLimit(t *testing.T) {
	t.Parallel()
	large := strings.Replace(addBody, "likes tea", strings.Repeat("tea ", 60_000), 1)
	for name, c := range map[string]struct {
		edits []string
		limit string
	}{
		"memproxy's": {nil, "100000"},
		"Envoy's":    {[]string{"per_connection_buffer_limit_bytes: 17825792", "per_connection_buffer_limit_bytes: 65536"}, "1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			b := startEnvoy(t, c.edits...)
			rec := &recorder{}
			b.answers(rec)
			b.start(settings(t, "body", c.limit))
			for _, body := range []io.Reader{strings.NewReader(large), chunked{strings.NewReader(large)}} {
				req := must.Get(http.NewRequest("POST", "http://"+b.mem0+"/memories", body))(t)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-API-Key", "m0sk_dev")
				resp := must.Get(http.DefaultClient.Do(req))(t)
				got, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 413 || !strings.Contains(string(got), `"code":"payload.too_large"`) || !strings.HasPrefix(resp.Header.Get("X-Memproxy-Decision"), "deny; id=") {
					t.Errorf("%d %v %s", resp.StatusCode, resp.Header, got)
				}
			}
			expect.Len(t, rec.arrived(), 0, "arrived")
			expect.Equal(t, strings.Count(b.audit(), `"code":"payload.too_large"`), 2)
			// The nearest thing that passes.
			devCall(t, "POST", "http://"+b.mem0+"/memories", addBody).want(t, 200, "a small add")
		})
	}
}

// Proves CARD-9: an Envoy that would let bodies pass unseen gets nothing done.
func TestEnvoyMisconfigured(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string][]string{
		"no request body":       {"request_body_mode: BUFFERED", "request_body_mode: NONE"},
		"part of the body":      {"request_body_mode: BUFFERED", "request_body_mode: BUFFERED_PARTIAL"},
		"streamed request body": {"request_body_mode: BUFFERED", "request_body_mode: STREAMED"},
		"no response body":      {"response_body_mode: BUFFERED", "response_body_mode: NONE"},
		"another backend":       {"value: mem0", "value: elsewhere"},
		"no backend":            {"initial_metadata: [{key: x-memproxy-backend, value: mem0}]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, rec := recording(t, edits...)
			want := 503
			if name == "no backend" {
				want = 200 // there is only one, so none needs a name
			}
			devCall(t, "POST", "http://"+b.mem0+"/memories", addBody, "X-Memproxy-Backend", "mem0").want(t, want)
			got := rec.arrived()
			expect.That(t, want != 503 || len(got) == 0, "arrived %q", got)
		})
	}
	t.Run("no mode override", func(t *testing.T) { // costs time and lets nothing through
		b, _ := recording(t, "allow_mode_override: true", "allow_mode_override: false")
		for path, want := range map[string]int{"/memories?user_id=ann": 200, "/memories?user_id=bob": 403} {
			devCall(t, "GET", "http://"+b.mem0+path, "").want(t, want, path)
		}
		devCall(t, "POST", "http://"+b.mem0+"/memories", addBody).want(t, 200, "add")
		devCall(t, "GET", "http://"+b.mem0+"/v1/ping/", "").want(t, 200, "pass")
	})
}

// Proves CARD-9: an answer of Envoy's own, for a backend that does not answer,
// is worded like the HTTP listener's and recorded.
func TestEnvoyBackendDown(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t, "port_value: 8000", "port_value: 1") // nobody listens there
	b.start(settings(t))
	got := devCall(t, "POST", "http://"+b.mem0+"/memories", addBody)
	expect.That(t, got.status == 502 && strings.Contains(got.body, `"code":"upstream.unavailable"`) && got.header.Get("Retry-After") != "", "%d %v %s", got.status, got.header, got.body)
	waitFor(t, "the outcome in the audit log", func() bool { return strings.Contains(b.audit(), `"code":"upstream.unavailable"`) })
}

// Proves CARD-9, CARD-10: an answer that breaks off is answered by Envoy itself, and
// names the decision.
func TestEnvoyAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t)
	b.answers(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"results":[`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	b.start(settings(t))
	for _, got := range []answer{devCall(t, "POST", "http://"+b.mem0+"/memories", addBody), devCall(t, "GET", "http://"+b.mem0+"/memories?user_id=ann", "")} {
		_, id, _ := strings.Cut(got.header.Get("X-Memproxy-Decision"), "allow; id=")
		expect.That(t, got.status == 502 && id != "", "%d %v %s", got.status, got.header, got.body)
		waitFor(t, "the decision in the audit log", func() bool { return strings.Contains(b.audit(), id) })
	}
}

// Proves CARD-9: a body that does not come is refused in the dialect and
// recorded.
func TestEnvoyBodyTooSlow(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t, "request_timeout: 30s", "request_timeout: 0.3s")
	rec := &recorder{}
	b.answers(rec)
	b.start(settings(t))
	got := raw(t, "http://"+b.mem0, "POST /memories HTTP/1.1\r\nHost: mem.example\r\nX-API-Key: m0sk_dev\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	expect.That(t, got.status == 408 && strings.Contains(got.body, `"code":"payload.slow"`), "%d %s", got.status, got.body)
	log := b.audit()
	expect.That(t, strings.Contains(log, `"code":"payload.slow"`) && len(rec.arrived()) == 0, "records: %s", tail(log, 1500))
}

// Proves CARD-9: nothing of an answer that Envoy cannot hold is shown, and the
// outcome is noted.
func TestEnvoyAnswerOverTheBuffer(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t, "per_connection_buffer_limit_bytes: 17825792", "per_connection_buffer_limit_bytes: 65536")
	b.answers(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"results":[{"id":"00000000-0000-4000-8000-000000000001","memory":"%s","user_id":"bob"}]}`, strings.Repeat("secret ", 60_000))
	}))
	b.start(settings(t))
	got := devCall(t, "GET", "http://"+b.mem0+"/memories?user_id=ann", "")
	expect.That(t, got.status >= 500 && !strings.Contains(got.body, "secret"), "%d %s", got.status, tail(got.body, 200))
	waitFor(t, "the outcome in the audit log", func() bool { return strings.Contains(b.audit(), `"type":"outcome"`) })
}

// Proves CARD-9: a route may name the backend in the filter's stead.
func TestEnvoyRouteNamesTheBackend(t *testing.T) {
	t.Parallel()
	b, _ := recording(t, "initial_metadata: [{key: x-memproxy-backend, value: mem0}]", "initial_metadata: [{key: x-memproxy-backend, value: elsewhere}]",
		"route: {cluster: mem0, timeout: 300s}\n", `route: {cluster: mem0, timeout: 300s}
                typed_per_filter_config:
                  envoy.filters.http.ext_proc:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute
                    overrides: {grpc_initial_metadata: [{key: x-memproxy-backend, value: mem0}]}
`)
	devCall(t, "POST", "http://"+b.mem0+"/memories", addBody).want(t, 200)
}
