package extproc_test

import (
	"context"
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
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/face/facetest"
)

// byKey identifies callers by a header.
type byKey struct{ *facetest.Parts }

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

// Proves EDGE-14: through Envoy too a caller with more slow requests than its
// share is refused, on gated, passed and public routes, and another tenant's is
// let through at once.
func TestOneCallerDoesNotStopOthers(t *testing.T) {
	const slow, many = 25 * time.Second, 600
	for _, path := range []string{"/memory", "/ping", "/health"} {
		synctest.Test(t, func(t *testing.T) {
			p := processor(t, byKey{&facetest.Parts{}}, extproc.Backend{Backend: face.Backend{Name: "b", Adapter: facetest.Toy{}, InFlight: face.NewInFlight(0, 0)}})
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
			if codes[0] == 0 || codes[0] > face.MaxRequests/2 || codes[0]+codes[503]+codes[429] != many {
				t.Errorf("%s: %v", path, codes)
			}
			if code, _, _ := ask(path, "mallory"); code != 0 {
				t.Error("not served afterwards:", path, code)
			}
		})
	}
}
