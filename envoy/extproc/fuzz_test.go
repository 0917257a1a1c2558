package extproc_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/must"
)

// seen is a Toy that stores its last request.
type seen struct {
	frontendtest.Toy
	req *memproxy.Request
}

func (s seen) Route(q memproxy.Request) (memproxy.Route, bool) {
	*s.req = q
	return memproxy.Route{ID: "toy.list", Kind: memproxy.Recall}, true
}

// FuzzDescribe compares the parsing of paths with net/http's, on which the HTTP listener
// rules and which backends use.
func FuzzDescribe(f *testing.F) {
	for _, s := range []string{"/", "/v1/memories/?a=b", "//x", "/a%2Fb", "/a%zz", "/a b", "*", "http://x/y", "/a#b", "/a?", "/ä", "/a\"b", "/%2e%2e/x", "/a;b", "/a\\b", "?x", ""} {
		f.Add(s)
	}
	var r memproxy.Request
	p := processor(f, &frontendtest.Parts{}, frontend.Backend{Backend: gate.Backend{Name: "b", Adapter: seen{req: &r}}})
	f.Fuzz(func(t *testing.T, target string) {
		s := &script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: []*procv3.ProcessingRequest{start(target, true)}}
		_ = p.Process(s) // ends with an error: no answer came
		if len(s.out) == 0 || s.out[0].GetImmediateResponse() != nil {
			return
		}
		forwarded := target
		for _, h := range s.out[0].GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
			if h.GetHeader().GetKey() == ":path" {
				forwarded = string(h.GetHeader().GetRawValue())
			}
		}
		u, err := url.ParseRequestURI(forwarded)
		if err != nil || u.EscapedPath() != r.EscapedPath || u.RawQuery != r.Query || u.Host != "" {
			t.Fatalf("%q is forwarded as %q, which reads %+v (%v), ruled on as %q ? %q", target, forwarded, u, err, r.EscapedPath, r.Query)
		}
		if strings.ContainsAny(target, " \r\n\t") || strings.ContainsFunc(target, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return // no such request line
		}
		q, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: mem.example\r\n\r\n")))
		if err != nil {
			return // the HTTP listener refuses it even sooner
		}
		must.Equal(t, q.URL.EscapedPath(), r.EscapedPath, target, "net/http reads", "this")
		must.Equal(t, q.URL.RawQuery, r.Query, target, "net/http reads", "this")
	})
}

// processor returns a processor for a backend, with a gate of the parts.
func processor(t testing.TB, parts frontendtest.Party, b frontend.Backend) *extproc.Processor {
	t.Helper()
	rules := frontendtest.Rules(parts)
	return must.Get(extproc.New(extproc.Options{Gate: frontendtest.NewGate(t, parts, &rules), Exchanges: 1200, Backends: []frontend.Backend{b}}))(t)
}

// script is a stream with given messages, which stores the responses.
type script struct {
	grpc.ServerStream
	ctx  context.Context
	in   []*procv3.ProcessingRequest
	asks int
	out  []*procv3.ProcessingResponse
}

func (s *script) Context() context.Context { return s.ctx }

func (s *script) Recv() (*procv3.ProcessingRequest, error) {
	if len(s.in) == 0 {
		return nil, io.EOF
	}
	q := s.in[0]
	s.in = s.in[1:]
	s.asks++
	return q, nil
}

func (s *script) Send(r *procv3.ProcessingResponse) error {
	s.out = append(s.out, r)
	return nil
}

func start(path string, end bool) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{
		Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{EndOfStream: end, Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
			{Key: ":method", RawValue: []byte("POST")}, {Key: ":path", RawValue: []byte(path)}, {Key: "x-a", Value: "b"},
		}}}},
		ProtocolConfig: &procv3.ProtocolConfiguration{RequestBodyMode: modev3.ProcessingMode_BUFFERED, ResponseBodyMode: modev3.ProcessingMode_BUFFERED},
	}
}

func body(b string) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestBody{RequestBody: &procv3.HttpBody{Body: []byte(b), EndOfStream: true}}}
}

func answered(status string, end bool) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &procv3.HttpHeaders{EndOfStream: end, Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":status", RawValue: []byte(status)}}}}}}
}

// pack and unpack convert a script to and from bytes, each message after its length.
func pack(list ...*procv3.ProcessingRequest) []byte {
	var out []byte
	for _, q := range list {
		b, err := proto.Marshal(q)
		if err != nil {
			return nil
		}
		out = append(append(out, byte(len(b)>>8), byte(len(b))), b...)
	}
	return out
}

func unpack(b []byte) []*procv3.ProcessingRequest {
	var out []*procv3.ProcessingRequest
	for len(b) > 2 && len(out) < 16 {
		n := min(int(b[0])<<8|int(b[1]), len(b)-2)
		q := &procv3.ProcessingRequest{}
		if proto.Unmarshal(b[2:2+n], q) != nil {
			q = &procv3.ProcessingRequest{}
		}
		out = append(out, q)
		b = b[2+n:]
	}
	return out
}

// FuzzProcess sends arbitrary messages in any order: the processor neither panics nor
// ends a stream without an error while a response is expected.
func FuzzProcess(f *testing.F) {
	f.Add(pack(start("/memory", false), body("tea"), answered("200", true)))
	f.Add(pack(start("/memory", true), answered("204", true)))
	f.Add(pack(start("/memory", true), answered("200", false), body("x")))
	f.Add(pack(start("/ping", false), body("tea")))
	f.Add(pack(start("/unknown", false), body("tea")))
	f.Add(pack(answered("400", true)))
	f.Add(pack(body("tea"), start("/memory", true)))
	f.Add(pack(start("/memory", false), answered("413", false)))
	p := processor(f, &frontendtest.Parts{}, frontend.Backend{Backend: gate.Backend{Name: "b", Adapter: frontendtest.Toy{}}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: unpack(raw)}
		watched := slices.ContainsFunc(s.in, (*procv3.ProcessingRequest).GetObservabilityMode) // no response is expected
		err := p.Process(s)
		if err == nil && !watched && len(s.out) < s.asks {
			t.Fatalf("ended well after %d messages and %d answers", s.asks, len(s.out))
		}
		if err != nil && errors.Is(err, io.EOF) {
			t.Fatal("an end of the stream is no error")
		}
		for _, r := range s.out {
			if r.GetImmediateResponse() == nil && r.Response == nil {
				t.Fatalf("an answer that says nothing: %v", r)
			}
		}
	})
}

// deaf are parts that store nothing.
type deaf struct{ *frontendtest.Parts }

func (deaf) Record(context.Context, memproxy.Event) error { return nil }
func (deaf) RecordAsync(memproxy.Event) error             { return nil }

// BenchmarkProcess measures the listener alone: a gate whose parts do nothing, and no
// network. Its allocations are in addition to the gate's.
func BenchmarkProcess(b *testing.B) {
	p := processor(b, deaf{}, frontend.Backend{Backend: gate.Backend{Name: "b", Adapter: frontendtest.Toy{}}})
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
