package extproc_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"go.opentelemetry.io/otel/propagation"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-14: a flood of rejections from one address is answered, and neither
// recorded nor logged one by one; another address and an identified caller are not
// affected.
func TestFloodsOfRejections(t *testing.T) {
	const limit, flood = 300, 320
	var log ring.Buffer
	r := newRig(t, func(r *rig) { r.opt.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	from := func(address string) { r.envoy.Attributes = map[string]any{"source.address": address} }
	from("10.1.1.1:5000")
	for i := range flood {
		want := http.StatusUnauthorized
		if i >= limit {
			want = http.StatusTooManyRequests
		}
		if resp, _ := r.do("GET", "/memory", "", "X-Key", "bad"); resp.StatusCode != want {
			t.Fatalf("rejection %d: %d", i, resp.StatusCode)
		}
	}
	expect.Equal(t, r.parts.Decisions(memproxy.IdentityInvalid), limit)
	expect.Text(t, log.String()).Times(limit, "identity.invalid").Times(0, "limit.rejections")
	expect.Equal(t, r.status("GET", "/memory", ""), 200, "a known caller at the same address")
	from("10.1.1.2:5000")
	if resp, _ := r.do("GET", "/memory", "", "X-Key", "bad"); resp.StatusCode != http.StatusUnauthorized || r.parts.Decisions(memproxy.IdentityInvalid) != limit+1 {
		t.Error("another address is taken for the flood's:", resp.StatusCode)
	}
}

// Proves EDGE-14: bodies and answers in memory share one budget here, too; over it they
// are refused with a time to retry, and recorded.
func TestBytesInFlightAreBounded(t *testing.T) {
	ring.Slow(t, "fills sockets and waits")
	t.Parallel()
	const total = 8 << 20 // half of it for data
	held := frontend.NewInFlight(total, total)
	r := newRig(t, func(r *rig) {
		r.opt.Backends[0].InFlight = held
		r.envoy.Attributes = map[string]any{"source.address": "10.1.1.1:5000"}
		r.answer = func(w http.ResponseWriter, q *http.Request) {
			if q.URL.RawQuery != "" {
				fmt.Fprint(w, strings.Repeat("m1 ann\n", 80<<10))
				return
			}
			fmt.Fprint(w, "m1 ann\n")
		}
	})
	body := strings.Repeat("x", 600<<10)
	other := held.Lease("10.1.1.2")
	other.Force(total/2 - 300<<10)
	if resp, _ := r.do("POST", "/memory", body); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || len(r.arrived()) > 0 {
		t.Error("a body for which there is no room:", resp.StatusCode, resp.Header)
	}
	expect.Equal(t, r.parts.Decisions(memproxy.LimitInFlight), 1)
	if resp, _ := r.do("GET", "/memory?large", ""); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Error("an answer for which there is no room:", resp.StatusCode, resp.Header)
	}
	expect.Equal(t, r.status("POST", "/memory", "small"), 200, "a small body beside it")
	other.Release()
	for _, q := range [][2]string{{"POST", "/memory"}, {"GET", "/memory?large"}} {
		expect.Equal(t, r.status(q[0], q[1], map[string]string{"POST": body}[q[0]]), 200, "with room", q)
	}
	ring.Until(t, "nothing is held for nobody", func() bool { return held.UsedBytes() == 0 })
}

// Proves EDGE-14: what a compressed answer becomes, and an event that is not complete,
// count in the budget, as at the HTTP listener.
func TestLargeAnswersInSmallPiecesAreBounded(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("m"+strings.Repeat("1", 1018)+" ann\n", 560) // memories of 1 KiB
	for name, c := range map[string]struct {
		method, path string
		answer       http.HandlerFunc
		want         func(resp *http.Response, body string, err error) bool
	}{
		"compressed": {"GET", "/memory", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			zw := gzip.NewWriter(w)
			fmt.Fprint(zw, large)
			_ = zw.Close()
		}, func(resp *http.Response, _ string, _ error) bool { return resp.StatusCode == 503 }},
		"an event": {"POST", "/run", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: first\n\n", "data: ", strings.ReplaceAll(large, "\n", " "), "\n\n")
		}, func(_ *http.Response, body string, err error) bool { return err != nil && len(body) < 1<<10 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := frontend.NewInFlight(8<<20, 8<<20)
			held.Wait = 30 * time.Millisecond
			r := newRig(t, func(r *rig) {
				r.opt.Backends[0].InFlight, r.answer = held, c.answer
				r.envoy.Attributes = map[string]any{"source.address": "10.1.1.1:5000"}
			})
			other := held.Lease("10.1.1.2")
			other.Force(4<<20 - 300<<10)
			ask := func() (*http.Response, string, error) {
				q := must.Get(http.NewRequest(c.method, r.URL+c.path, nil))(t)
				resp := must.Get((&http.Client{Transport: &http.Transport{DisableCompression: true}}).Do(q))(t)
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				return resp, string(b), err
			}
			if resp, body, err := ask(); !c.want(resp, body, err) {
				t.Errorf("without room: %d, %d bytes, %v", resp.StatusCode, len(body), err)
			}
			other.Release()
			if resp, body, err := ask(); resp.StatusCode != 200 || len(body) < len(large) || err != nil {
				t.Errorf("with room: %d, %d bytes, %v", resp.StatusCode, len(body), err)
			}
			ring.Until(t, "nothing is held for nobody", func() bool { return held.UsedBytes() == 0 })
		})
	}
}

// Proves EDGE-14: small events need no room, as at the HTTP listener: a full budget ends no
// stream.
func TestSmallEventsNeedNoRoom(t *testing.T) {
	t.Parallel()
	held := frontend.NewInFlight(8<<20, 8<<20)
	held.Wait = 30 * time.Millisecond
	r := newRig(t, func(r *rig) {
		r.opt.Backends[0].InFlight = held
		r.envoy.Attributes = map[string]any{"source.address": "10.1.1.1:5000"}
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			held.Lease("10.1.1.2").Force(8 << 20)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: m1 ann\n\n")
		}
	})
	if resp, body := r.do("POST", "/run", ""); resp.StatusCode != 200 || !strings.Contains(body, "ann") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

// Proves EDGE-14: the concurrent requests are bounded; further ones are refused.
func TestExchangesAreBounded(t *testing.T) {
	t.Parallel()
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	r := newRig(t, func(r *rig) {
		r.opt.Exchanges = 1
		r.answer = func(w http.ResponseWriter, q *http.Request) {
			arrived <- struct{}{}
			<-release
			fmt.Fprint(w, "m1 ann\n")
		}
	})
	done := make(chan int)
	go func() {
		resp, err := http.Get(r.URL + "/memory")
		if err != nil {
			done <- 0
			return
		}
		resp.Body.Close()
		done <- resp.StatusCode
	}()
	<-arrived
	if resp, _ := r.do("GET", "/memory", ""); resp.StatusCode < 500 {
		t.Error("one more than are bounded:", resp.StatusCode)
	}
	_, err := authv3.NewAuthorizationClient(r.conn).Check(t.Context(), check("POST", "/memory", "tea"))
	expect.Equal(t, status.Code(err), codes.ResourceExhausted, "a check more")
	close(release)
	expect.Equal(t, <-done, 200, "the one that is under way")
	expect.Equal(t, len(r.arrived()), 1)
	ring.Until(t, "something is served afterwards", func() bool {
		resp, _ := r.do("GET", "/health", "")
		return resp.StatusCode == 200
	})
}

// byKey identifies callers by a header.
type byKey struct{ *frontendtest.Parts }

func (k byKey) Identify(ctx context.Context, c memproxy.Credentials) (memproxy.Principal, error) {
	p, err := k.Parts.Identify(ctx, c)
	p.ID = c.Header.Get("X-Key")
	p.Tenant = "of " + p.ID
	return p, err
}

// slowly is a script whose backend takes a while to answer.
type slowly struct {
	script
	wait func()
}

func (s *slowly) Recv() (*procv3.ProcessingRequest, error) {
	if s.asks == 1 {
		s.wait()
	}
	return s.script.Recv()
}

// Proves EDGE-14: through Envoy, too, a caller with more slow requests than its share
// is refused, on gated, passed and public routes, and another tenant's request is
// admitted at once.
func TestOneCallerDoesNotStopOthers(t *testing.T) {
	const slow, many = 25 * time.Second, 600
	for _, path := range []string{"/memory", "/ping", "/health"} {
		synctest.Test(t, func(t *testing.T) {
			p := processor(t, byKey{&frontendtest.Parts{}}, frontend.Backend{Backend: gate.Backend{Name: "b", Adapter: frontendtest.Toy{}}, InFlight: frontend.NewInFlight(0, 0)})
			ask := func(path, key string) (code int32, retry string, took time.Duration) {
				head := start(path, true)
				h := head.GetRequestHeaders().GetHeaders()
				h.Headers = append(h.Headers, &corev3.HeaderValue{Key: "x-key", Value: key})
				s := &slowly{script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: []*procv3.ProcessingRequest{head, answered("200", true)}}, func() { time.Sleep(slow) }}
				begun := time.Now()
				expect.OK(t, p.Process(s))
				for _, r := range s.out {
					if no := r.GetImmediateResponse(); no != nil {
						code = int32(no.GetStatus().GetCode())
						for _, h := range no.GetHeaders().GetSetHeaders() {
							if strings.EqualFold(h.GetHeader().GetKey(), "Retry-After") {
								retry = string(h.GetHeader().GetRawValue())
							}
						}
					}
				}
				return code, retry, time.Since(begun)
			}
			var all sync.WaitGroup
			var mu sync.Mutex
			codes := map[int32]int{}
			for range many {
				all.Go(func() {
					code, retry, took := ask(path, "mallory")
					if code == 503 && (retry == "" || took > slow/5) {
						t.Errorf("%s: refused after %v, Retry-After %q", path, took, retry)
					}
					mu.Lock()
					defer mu.Unlock()
					codes[code]++
				})
			}
			time.Sleep(time.Second)
			if code, _, took := ask("/memory", "ann"); code != 0 || took != slow {
				t.Errorf("%s: another tenant's request is answered %d after %v", path, code, took)
			}
			all.Wait()
			if codes[0] == 0 || codes[0] > frontend.MaxRequests/2 || codes[0]+codes[503]+codes[429] != many {
				t.Errorf("%s: %v", path, codes)
			}
			if code, _, _ := ask(path, "mallory"); code != 0 {
				t.Error("not served afterwards:", path, code)
			}
		})
	}
}

// hangs is a backend that answers the GET of a HEAD when the request ends, and any
// other request at once.
type hangs struct{}

func (hangs) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Path == "/memory" {
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
}

// Proves EDGE-14: the GETs for a caller's HEADs count as the caller's, and do not use
// the room for memproxy's own requests or those of another tenant's caller.
func TestHeadsAreTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := frontend.NewInFlight(0, 0)
		side := frontend.NewSide(&frontend.Backend{Upstream: &url.URL{Scheme: "http", Host: "backend"}}, hangs{}, all.Side(), propagation.TraceContext{})
		p := processor(t, byKey{&frontendtest.Parts{}}, frontend.Backend{Backend: gate.Backend{Name: "b", Adapter: frontendtest.Toy{}, Fetch: side}, InFlight: all})
		head := start("/memory", true)
		h := head.GetRequestHeaders().GetHeaders()
		h.Headers[0].RawValue = []byte("HEAD")
		h.Headers = append(h.Headers, &corev3.HeaderValue{Key: "x-key", Value: "mallory"})
		var heads sync.WaitGroup
		for range 300 {
			heads.Go(func() {
				_ = p.Process(&script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: []*procv3.ProcessingRequest{head}})
			})
		}
		time.Sleep(5 * time.Second)
		for who, asker := range map[string]*frontend.Side{"memproxy": side, "ann": side.For("ann", "acme")} {
			begun := time.Now()
			if _, err := asker.Fetch(t.Context(), memproxy.Request{Method: "GET", EscapedPath: "/quick"}); err != nil || time.Since(begun) != 0 {
				t.Errorf("for %s: after %v, %v", who, time.Since(begun), err)
			}
		}
		heads.Wait()
	})
}

// addresses stores the addresses of the callers that it identifies.
type addresses struct {
	*frontendtest.Parts
	seen []string
}

func (a *addresses) Identify(ctx context.Context, c memproxy.Credentials) (memproxy.Principal, error) {
	a.seen = append(a.seen, c.Peer)
	return a.Parts.Identify(ctx, c)
}

// Proves EDGE-3: callers are identified by their address on public routes too, as at the
// HTTP listener, so that a web page of this machine is not lent the backend's credential.
func TestCallersOfPublicRoutesHaveAnAddress(t *testing.T) {
	callers := &addresses{Parts: &frontendtest.Parts{}}
	p := processor(t, callers, frontend.Backend{Backend: gate.Backend{Name: "b", Adapter: frontendtest.Toy{}}, Credential: &frontend.Credential{Header: "Authorization", Value: "Token lent"}})
	ask := start("/health", true)
	ask.GetRequestHeaders().Headers.Headers[0].RawValue = []byte("GET")
	ask.Attributes = map[string]*structpb.Struct{"envoy.filters.http.ext_proc": must.Get(structpb.NewStruct(map[string]any{"source.address": "127.0.0.1:5000"}))(t)}
	_ = p.Process(&script{ctx: t.Context(), in: []*procv3.ProcessingRequest{ask}}) // the stream ends without an answer
	expect.List(t, callers.seen, []string{"127.0.0.1"}, "addresses of the callers: ")
}
