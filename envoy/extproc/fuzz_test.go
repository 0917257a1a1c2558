package extproc

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
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
)

// FuzzDescribe holds the reading of a path to net/http's, which is what the
// HTTP face rules on and what backends behind it see.
func FuzzDescribe(f *testing.F) {
	for _, s := range []string{"/", "/v1/memories/?a=b", "//x", "/a%2Fb", "/a%zz", "/a b", "*", "http://x/y", "/a#b", "/a?", "/ä", "/a\"b", "/%2e%2e/x", "/a;b", "/a\\b", "?x", ""} {
		f.Add("GET", s)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		r := describe(map[string]string{":method": method, ":path": target, ":authority": "mem.example"}, memproxy.Header{}, nil)
		if r.flaw != nil {
			return
		}
		if target == "*" {
			return
		}
		u, err := url.ParseRequestURI(r.forwarded)
		if err != nil || u.Path != r.Path || u.RawQuery != r.Query || u.Host != "" {
			t.Fatalf("%q is forwarded as %q, which reads %+v (%v), ruled on as %q ? %q", target, r.forwarded, u, err, r.Path, r.Query)
		}
		if strings.ContainsAny(target, " \r\n\t") || strings.ContainsFunc(target, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return // no such request line
		}
		q, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: mem.example\r\n\r\n")))
		if err != nil {
			return // the HTTP face refuses it even sooner
		}
		if q.URL.Path != r.Path || q.URL.EscapedPath() != r.EscapedPath || q.URL.RawQuery != r.Query {
			t.Fatalf("%q: net/http reads %q, %q, %q; this %q, %q, %q", target, q.URL.Path, q.URL.EscapedPath(), q.URL.RawQuery, r.Path, r.EscapedPath, r.Query)
		}
	})
}

// silent is every collaborator, saying as little as can be.
type silent struct{}

func (silent) Identify(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
	return memproxy.Principal{ID: "a", Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, Users: memproxy.Limit{All: true}, ActsAs: memproxy.Limit{All: true}, Apps: memproxy.Limit{All: true}, Runs: memproxy.Limit{All: true}}, nil
}

func (silent) Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error) {
	return memproxy.Allowance{Granted: true, Refused: -1}, nil
}
func (silent) Release(context.Context, memproxy.Charge) error { return nil }
func (silent) Sign(s memproxy.Stamp) memproxy.Stamp           { return s }
func (silent) Verify(memproxy.Stamp) bool                     { return false }
func (silent) Rule(context.Context, memproxy.Question) (memproxy.Ruling, error) {
	return memproxy.Ruling{}, nil
}

func (silent) Record(context.Context, memproxy.Event) (memproxy.Receipt, error) {
	return memproxy.Receipt{}, nil
}
func (silent) Note(memproxy.Event) error { return nil }

func (silent) Name() string { return "silent" }
func (silent) Route(q memproxy.Request) (memproxy.Route, bool) {
	return memproxy.Route{ID: "r", Kind: memproxy.Recall, Pass: q.Path == "/pass" || q.Path == "/open", Public: q.Path == "/open"}, q.Path != "/unknown"
}

func (silent) Decode(r memproxy.Route, _ memproxy.Request, b []byte) (*memproxy.Operation, error) {
	if len(b) > 8 {
		return nil, &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: 400}
	}
	return &memproxy.Operation{Kind: r.Kind}, nil
}

func (silent) Encode(_ memproxy.Route, q memproxy.Request, b []byte, _ *memproxy.Operation) ([]byte, string, error) {
	return b, q.Query, nil
}

func (silent) Refuse(_ memproxy.Request, d memproxy.Decision) memproxy.Reply {
	return memproxy.Reply{Status: d.Status}
}

func (silent) Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error) {
	return &memproxy.Reading{}, nil
}

func (silent) Rewrite(_ memproxy.Route, _ memproxy.Request, r memproxy.Reply, _ *memproxy.Reading) ([]byte, error) {
	return r.Body, nil
}

// script is a stream that sends what it is given and keeps the answers.
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

// pack and unpack hold a script in bytes, each message behind its length.
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

// FuzzProcess sends any messages in any order: the processor neither panics
// nor ends a stream as if all were well while an answer is waited for.
func FuzzProcess(f *testing.F) {
	f.Add(pack(start("/m", false), body("tea"), answered("200", true)))
	f.Add(pack(start("/m", true), answered("204", true)))
	f.Add(pack(start("/m", true), answered("200", false), body("x")))
	f.Add(pack(start("/pass", false), body("tea")))
	f.Add(pack(start("/unknown", false), body("tea")))
	f.Add(pack(answered("400", true)))
	f.Add(pack(body("tea"), start("/m", true)))
	f.Add(pack(start("/m", false), answered("413", false)))
	g, err := gate.New(gate.Options{
		Identifier: silent{}, Ledger: gate.NoLedger{}, Budget: silent{}, Recorder: silent{}, Signer: silent{},
		Clock: time.Now, NewID: func() string { return "d" },
	}, &gate.Rules{
		Version: "v", Profile: gate.Production, Policy: silent{}, Ceilings: memproxy.DefaultCeilings(), Enforce: true,
		Unattributed: access.Visible,
		Lines:        func(memproxy.Principal, memproxy.Kind, string, []string) []memproxy.Line { return nil },
	})
	if err != nil {
		f.Fatal(err)
	}
	p, err := New(Options{Gate: g, Backends: []Backend{{Backend: face.Backend{Name: "b", Adapter: silent{}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: unpack(raw)}
		watched := slices.ContainsFunc(s.in, (*procv3.ProcessingRequest).GetObservabilityMode) // no answer is waited for
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
