package extproc_test

import (
	"context"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/internal/must"
)

// deaf are parts that store nothing.
type deaf struct{ *frontendtest.Parts }

func (deaf) Record(context.Context, memproxy.Event) (memproxy.Receipt, error) {
	return memproxy.Receipt{}, nil
}
func (deaf) Note(memproxy.Event) error { return nil }

// BenchmarkProcess measures the listener alone: a gate whose parts do nothing, and no
// network. Its allocations are in addition to the gate's.
func BenchmarkProcess(b *testing.B) {
	p := processor(b, deaf{}, extproc.Backend{Backend: frontend.Backend{Name: "b", Adapter: frontendtest.Toy{}}})
	head := start("/memory", false)
	h := head.GetRequestHeaders().GetHeaders()
	for _, name := range strings.Fields("user-agent accept content-type x-api-key x-request-id x-forwarded-proto x-envoy-expected-rq-timeout-ms content-length") {
		h.Headers = append(h.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte("a value of ordinary length")})
	}
	in := []*procv3.ProcessingRequest{head, body("tea"), answered("200", false), {
		Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{Body: []byte("{}"), EndOfStream: true}},
	}}
	ctx := metadata.NewIncomingContext(b.Context(), metadata.MD{})
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, p.Process(&script{ctx: ctx, in: in}))
	}
}
