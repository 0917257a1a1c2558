package extproc

import (
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
)

// BenchmarkProcess is the face alone: a gate whose collaborators do nothing,
// and no wire. What it allocates comes on top of what the gate does.
func BenchmarkProcess(b *testing.B) {
	g, err := gate.New(gate.Options{
		Identifier: silent{}, Ledger: gate.NoLedger{}, Budget: silent{}, Recorder: silent{}, Signer: silent{},
		Clock: time.Now, NewID: func() string { return "d" },
	}, &gate.Rules{
		Version: "v", Profile: gate.Production, Policy: silent{}, Ceilings: memproxy.DefaultCeilings(), Enforce: true,
		Unattributed: access.Visible,
		Lines:        func(memproxy.Principal, memproxy.Kind, string, []string) []memproxy.Line { return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	p, err := New(Options{Gate: g, Backends: []Backend{{Backend: face.Backend{Name: "b", Adapter: silent{}}}}})
	if err != nil {
		b.Fatal(err)
	}
	head := start("/m", false)
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
		if err := p.Process(&script{ctx: ctx, in: in}); err != nil {
			b.Fatal(err)
		}
	}
}
