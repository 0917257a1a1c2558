package extproc_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/internal/must"
)

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
			p := processor(t, byKey{&frontendtest.Parts{}}, extproc.Backend{Backend: frontend.Backend{Name: "b", Adapter: frontendtest.Toy{}, InFlight: frontend.NewInFlight(0, 0)}})
			ask := func(path, key string) (code int32, retry string, took time.Duration) {
				head := start(path, true)
				h := head.GetRequestHeaders().GetHeaders()
				h.Headers = append(h.Headers, &corev3.HeaderValue{Key: "x-key", Value: key})
				s := &slowly{script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: []*procv3.ProcessingRequest{head, answered("200", true)}}, func() { time.Sleep(slow) }}
				begun := time.Now()
				if err := p.Process(s); err != nil {
					t.Error(err)
				}
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
		side := must.Get(frontend.NewSide(frontend.SideOptions{Upstream: &url.URL{Scheme: "http", Host: "backend"}, InFlight: all.Side(), Transport: hangs{}}))(t)
		p := processor(t, byKey{&frontendtest.Parts{}}, extproc.Backend{Backend: frontend.Backend{Name: "b", Adapter: frontendtest.Toy{}, InFlight: all}, Fetch: side})
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
			if _, err := asker.Fetch(t.Context(), memproxy.Request{Method: "GET", Path: "/quick"}); err != nil || time.Since(begun) != 0 {
				t.Errorf("for %s: after %v, %v", who, time.Since(begun), err)
			}
		}
		heads.Wait()
	})
}
