package extproc_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves CARD-9: the forms of a stream, none of which ends as consent.
func TestProcessor(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*rig)
		method  string
		path    string
		body    string
		header  []string
		status  int
		answer  string
		arrived []string
	}{
		"an add is stamped":             {nil, "POST", "/memory", "tea", nil, 200, "m1 ann\n", []string{"POST /memory agent:dev says: tea"}},
		"a refusal in dialect":          {nil, "POST", "/memory", "malformed", nil, 400, `"payload.malformed"`, nil},
		"a bad credential":              {nil, "POST", "/memory", "tea", []string{"X-Key", "bad"}, 401, `"identity.invalid"`, nil},
		"a pass":                        {nil, "POST", "/ping", "anything", nil, 200, "m1 ann\n", []string{"POST /ping anything"}},
		"a pass with an override":       {nil, "POST", "/ping", "anything", []string{"X-Http-Method", "PUT"}, 400, `"route.unknown"`, nil},
		"a form of nobody, development": {func(r *rig) { r.rules.Profile = gate.Development }, "POST", "/ping", "a=1", []string{"X-Key", "bad", "Content-Type", "application/x-www-form-urlencoded"}, 200, "m1 ann\n", []string{"POST /ping a=1"}},
		"an unknown route":              {nil, "POST", "/pang", "", nil, 403, `"route.unknown"`, nil},
		"a query is extended":           {nil, "GET", "/memory?more=1", "", nil, 200, "m1 ann\n", []string{"GET /memory?more=1&fields=user "}},
		"others are left out":           {answering("m1 ann\nm2 bob\n"), "GET", "/memory", "", nil, 200, "m1 ann\n", []string{"GET /memory "}},
		"an unreadable answer":          {answering("unreadable"), "GET", "/memory", "", nil, 502, `"upstream.malformed"`, []string{"GET /memory "}},
		"an answer too large": {func(r *rig) {
			r.opt.Backends[0].MaxAnswer = 10
			answering(strings.Repeat("m1 ann\n", 10))(r)
		}, "GET", "/memory", "", nil, 502, `"upstream.malformed"`, []string{"GET /memory "}},
		"a compressed answer": {func(r *rig) {
			r.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				fmt.Fprint(z, "m1 ann\nm2 bob\n")
				_ = z.Close()
			}
		}, "GET", "/memory", "", nil, 200, "m1 ann\n", []string{"GET /memory "}},
		"a compression nobody asked for": {func(r *rig) {
			r.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "br")
				fmt.Fprint(w, "m1 ann\n")
			}
		}, "GET", "/memory", "", nil, 502, `"upstream.malformed"`, []string{"GET /memory "}},
		"a body over the limit":         {func(r *rig) { r.opt.Backends[0].MaxBody = 3 }, "POST", "/memory", "milk", nil, 413, `"payload.too_large"`, nil},
		"a body at the limit":           {func(r *rig) { r.opt.Backends[0].MaxBody = 4 }, "POST", "/memory", "milk", nil, 200, "m1 ann\n", []string{"POST /memory agent:dev says: milk"}},
		"a body over Envoy's":           {func(r *rig) { r.envoy.Buffer = 3 }, "POST", "/memory", "milk", nil, 413, `"payload.too_large"`, nil},
		"a body over the limit, shadow": {func(r *rig) { r.envoy.Buffer, r.rules.Enforce = 3, false }, "POST", "/memory", "milk", nil, 413, `"payload.too_large"`, nil},
		"over the limit, shadow":        {func(r *rig) { r.opt.Backends[0].MaxBody, r.rules.Enforce = 3, false }, "POST", "/memory", "milk", nil, 200, "m1 ann\n", []string{"POST /memory milk"}},
		"no backend":                    {func(r *rig) { r.envoy.Upstream = "http://127.0.0.1:1" }, "POST", "/memory", "tea", nil, 502, `"upstream.unavailable"`, nil},
		"no backend of a public route":  {func(r *rig) { r.envoy.Upstream = "http://127.0.0.1:1" }, "GET", "/health", "", nil, 502, string(frontend.NoAnswerReply().Body), nil},
		"no backend of a preflight":     {func(r *rig) { r.envoy.Upstream = "http://127.0.0.1:1" }, "OPTIONS", "/memory", "", []string{"Origin", "http://a.example", "Access-Control-Request-Method", "GET"}, 502, string(frontend.NoAnswerReply().Body), nil},
		"another backend":               {func(r *rig) { r.envoy.Backend = "other" }, "POST", "/ping", "tea", []string{"X-Memproxy-Backend", "toy"}, 500, "", nil},
		"no backend is named":           {func(r *rig) { r.envoy.Backend = "" }, "POST", "/ping", "tea", nil, 200, "m1 ann\n", []string{"POST /ping tea"}},
		"no body is sent":               {mode(func(m *modev3.ProcessingMode) { m.RequestBodyMode = modev3.ProcessingMode_NONE }), "POST", "/memory", "tea", nil, 500, "", nil},
		"a part of the body is sent":    {mode(func(m *modev3.ProcessingMode) { m.RequestBodyMode = modev3.ProcessingMode_BUFFERED_PARTIAL }), "POST", "/memory", "tea", nil, 500, "", nil},
		"no answer is sent":             {mode(func(m *modev3.ProcessingMode) { m.ResponseBodyMode = modev3.ProcessingMode_NONE }), "GET", "/memory", "", nil, 500, "", nil},
		"no override is allowed":        {func(r *rig) { r.envoy.NoOverride = true }, "POST", "/memory", "tea", nil, 200, "m1 ann\n", []string{"POST /memory agent:dev says: tea"}},
		"a pass, no override":           {func(r *rig) { r.envoy.NoOverride = true }, "POST", "/ping", "anything", []string{"Content-Type", "application/octet-stream"}, 200, "m1 ann\n", []string{"POST /ping anything"}},
		"over the limit, shadow, no override": {func(r *rig) {
			r.envoy.NoOverride, r.opt.Backends[0].MaxBody, r.rules.Enforce = true, 3, false
		}, "POST", "/memory", "milk", nil, 200, "m1 ann\n", []string{"POST /memory milk"}},
		"a panic": {nil, "POST", "/memory", "panic", nil, 500, "", nil},
		"shadow":  {func(r *rig) { r.rules.Enforce = false }, "POST", "/memory", "malformed", nil, 200, "m1 ann\n", []string{"POST /memory malformed"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.change)
			resp, body := r.do(c.method, c.path, c.body, c.header...)
			expect.Equal(t, resp.StatusCode, c.status)
			expect.Equal(t, body, c.answer)
			expect.List(t, r.arrived(), c.arrived, "arrived")
		})
	}
}

// Shadow mode cannot forward a body that Envoy does not have. The refusal is in the audit log.
func TestShadowRecordsWhatEnvoyRefuses(t *testing.T) {
	outcome := func(events []memproxy.Event, want memproxy.ReasonCode) {
		t.Helper()
		expect.Len(t, events, 2, "records")
		expect.Equal(t, events[1].Type, memproxy.EventOutcome)
		expect.Equal(t, events[1].Reasons[0].Code, want)
	}
	r := newRig(t, func(r *rig) { r.envoy.Buffer, r.rules.Enforce = 3, false })
	r.do("POST", "/memory", "milk")
	outcome(r.parts.Recorded(), memproxy.PayloadTooLarge)

	parts := &frontendtest.Parts{}
	rules := frontendtest.Rules(parts)
	rules.Enforce = false
	p := must.Get(extproc.New(extproc.Options{Gate: frontendtest.NewGate(t, parts, &rules), Exchanges: 1, Backends: []frontend.Backend{{Backend: gate.Backend{Name: "b", Adapter: frontendtest.Toy{}}}}}))(t)
	_ = p.Process(&script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: []*procv3.ProcessingRequest{start("/memory", false)}})
	outcome(parts.Recorded(), memproxy.PayloadSlow)
}

func answering(body string) func(*rig) {
	return func(r *rig) { r.answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) } }
}

func mode(change func(*modev3.ProcessingMode)) func(*rig) {
	return func(r *rig) {
		r.envoy.Mode = extproctest.Mode()
		change(r.envoy.Mode)
	}
}

// Proves CARD-9: a refusal keeps headers with several values.
func TestRefusalKeepsLists(t *testing.T) {
	r := newRig(t, nil)
	resp, _ := r.do("POST", "/memory", "malformed")
	expect.List(t, resp.Header["X-Many"], []string{"a", "b"})
	expect.Equal(t, resp.Header.Get("X-Memproxy-Decision"), "deny; id=d1")
}

// Proves CARD-9: the peer is the one in Envoy's attributes, and only over TLS.
func TestPeer(t *testing.T) {
	for want, attributes := range map[string]map[string]any{
		"spiffe://x/y says: tea": {"connection.mtls": true, "connection.uri_san_peer_certificate": "spiffe://x/y"},
		"agent:dev says: tea":    {"connection.mtls": false, "connection.uri_san_peer_certificate": "spiffe://x/y"},
	} {
		r := newRig(t, func(r *rig) { r.envoy.Attributes = attributes })
		r.do("POST", "/memory", "tea", "X-Forwarded-Client-Cert", "URI=spiffe://x/z")
		if got := r.arrived(); len(got) != 1 || got[0] != "POST /memory "+want {
			t.Errorf("arrived %q, want %q", got, want)
		}
	}
}

// Proves TRL-10: a request in observability mode is recorded as not enforced, and under
// the current rules.
func TestWatching(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.parts.Wrote = make(chan memproxy.Event, 4)
		r.envoy.Observe = true
		mode(func(m *modev3.ProcessingMode) {
			m.RequestBodyMode, m.ResponseBodyMode = modev3.ProcessingMode_STREAMED, modev3.ProcessingMode_NONE
		})(r)
	})
	for _, version := range []string{"v", "w"} {
		rules := r.rules
		rules.Version = version
		must.Do(t, r.opt.Gate.Use(&rules))
		resp, _ := r.do("POST", "/memory", "malformed")
		expect.Equal(t, resp.StatusCode, 200, resp.Header)
		expect.Equal(t, resp.Header.Get("X-Memproxy-Decision"), "", resp.Header)
		ev := <-r.parts.Wrote
		if ev.Verdict != memproxy.Allow || ev.ShadowVerdict != memproxy.Deny || ev.Policy != version {
			t.Errorf("recorded %v, would %v, by %s", ev.Verdict, ev.ShadowVerdict, ev.Policy)
		}
	}
	expect.List(t, r.arrived(), []string{"POST /memory malformed", "POST /memory malformed"}, "arrived")
}

// Proves CARD-9, CARD-10: an answer that breaks off is answered by Envoy, with the
// decision that the processor left in the metadata.
func TestBrokenAnswersNameTheirDecision(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.parts.Wrote = make(chan memproxy.Event, 1)
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "m1 a")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	for _, q := range [][]string{{"POST", "/memory", "tea"}, {"GET", "/memory", ""}} {
		resp, said := r.do(q[0], q[1], q[2])
		ev := <-r.parts.Wrote
		if resp.StatusCode != http.StatusBadGateway || strings.Contains(said, "m1") || resp.Header.Get("X-Memproxy-Decision") != "allow; id="+ev.Decision || !ev.Cancelled {
			t.Errorf("%s: %d %v, recorded %+v", q[0], resp.StatusCode, resp.Header, ev)
		}
	}
}

// Proves CARD-9: a request whose caller hangs up while the backend works has an
// outcome.
func TestHangingUp(t *testing.T) {
	ring.Slow(t, "races a hang-up with an answer on a socket")
	came, gone := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.parts.Wrote = make(chan memproxy.Event, 1)
		r.answer = func(_ http.ResponseWriter, q *http.Request) {
			close(came)
			<-q.Context().Done()
			close(gone)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	q := must.Get(http.NewRequestWithContext(ctx, "POST", r.URL+"/memory", strings.NewReader("tea")))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(q); err == nil {
			resp.Body.Close()
		}
	}()
	<-came
	cancel()
	<-gone
	expect.Equal(t, (<-r.parts.Wrote).Cancelled, true, "recorded")
	<-done
}

// Proves CARD-9: health reports that the processor stops before it does, and requests
// in flight are finished.
func TestStopping(t *testing.T) {
	came, let := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			close(came)
			<-let
			fmt.Fprint(w, "m1 ann\n")
		}
	})
	health := healthv1.NewHealthClient(r.conn)
	watching, unwatch := context.WithCancel(t.Context())
	defer unwatch()
	watch := must.Get(health.Watch(watching, &healthv1.HealthCheckRequest{Service: procv3.ExternalProcessor_ServiceDesc.ServiceName}))(t)
	must.Equal(t, must.Get(watch.Recv())(t).Status, healthv1.HealthCheckResponse_SERVING)
	type result struct {
		status int
		body   string
	}
	done := make(chan result, 1)
	go func() {
		resp, body := r.do("POST", "/memory", "tea")
		done <- result{resp.StatusCode, body}
	}()
	<-came
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), ring.Limit)
		defer cancel()
		stopped <- r.stop(ctx)
	}()
	must.Equal(t, must.Get(watch.Recv())(t).Status, healthv1.HealthCheckResponse_NOT_SERVING)
	unwatch() // the watch is a stream in flight, too
	close(let)
	if got := <-done; got.status != 200 || got.body != "m1 ann\n" {
		t.Errorf("%+v", got)
	}
	expect.OK(t, <-stopped, "it does not stop")
}

func TestOptionsAreChecked(t *testing.T) {
	r := newRig(t, nil)
	toyBackend := frontend.Backend{Backend: gate.Backend{Name: "toy", Adapter: frontendtest.Toy{}}}
	for name, o := range map[string]extproc.Options{
		"no gate":     {Backends: []frontend.Backend{toyBackend}},
		"no backend":  {Gate: r.opt.Gate},
		"no name":     {Gate: r.opt.Gate, Backends: []frontend.Backend{{Backend: gate.Backend{Adapter: frontendtest.Toy{}}}}},
		"no adapter":  {Gate: r.opt.Gate, Backends: []frontend.Backend{{Backend: gate.Backend{Name: "toy"}}}},
		"twice":       {Gate: r.opt.Gate, Backends: []frontend.Backend{toyBackend, toyBackend}},
		"bad pattern": {Gate: r.opt.Gate, Backends: []frontend.Backend{{Backend: gate.Backend{Name: "toy", Adapter: frontendtest.Toy{}}, Passthrough: []string{"custom"}}}},
	} {
		expect.Error(t, expect.Err(extproc.New(o)), name, "accepted")
	}
	must.Get(extproc.New(extproc.Options{Gate: r.opt.Gate, Backends: []frontend.Backend{toyBackend}}))(t)
}
