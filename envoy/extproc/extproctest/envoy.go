package extproctest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
)

// Envoy is an HTTP proxy with one external processor, and without any other feature of
// Envoy. It is an http.Handler that is safe for concurrent use.
type Envoy struct {
	// Conn is the connection to the processor.
	Conn grpc.ClientConnInterface
	// Upstream is the backend, "http://host:port".
	Upstream string
	// Backend, if not "", is sent in the stream's initial metadata.
	Backend string
	// Buffer is the maximum size of a buffered body in bytes. The default is 32 MiB.
	Buffer int
	// Attributes are sent with a request's headers.
	Attributes map[string]any
	// Mode is the filter's static processing mode; the default is that of examples/envoy.
	// NoOverride makes the filter ignore mode overrides.
	Mode       *modev3.ProcessingMode
	NoOverride bool
	// Observe enables observability mode.
	Observe bool
	// Transport sends requests to the backend. The default is http.DefaultTransport.
	Transport http.RoundTripper
}

// Mode returns the static processing mode of examples/envoy: everything is buffered. The
// processor then turns off what it does not need.
func Mode() *modev3.ProcessingMode {
	return &modev3.ProcessingMode{
		RequestHeaderMode: modev3.ProcessingMode_SEND, ResponseHeaderMode: modev3.ProcessingMode_SEND,
		RequestBodyMode: modev3.ProcessingMode_BUFFERED, ResponseBodyMode: modev3.ProcessingMode_BUFFERED,
		RequestTrailerMode: modev3.ProcessingMode_SEND, ResponseTrailerMode: modev3.ProcessingMode_SKIP,
	}
}

// errImmediate ends an exchange that the processor answered.
var errImmediate = errors.New("answered by the processor")

type filter struct {
	e      *Envoy
	w      http.ResponseWriter
	stream procv3.ExternalProcessor_ProcessClient
	mode   *modev3.ProcessingMode
	over   bool // the processor ended the stream
	first  bool
	// trailers returns the answer's trailers once its body was read. It is nil for
	// Envoy's own answers.
	trailers func() http.Header
	decision string // from the dynamic metadata
}

// ServeHTTP passes a request through the processor and forwards it to the backend.
func (e *Envoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, leave := e.stay(r.Context())
	if e.Backend != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-memproxy-backend", e.Backend)
	}
	stream, err := procv3.NewExternalProcessorClient(e.Conn).Process(ctx)
	defer leave(stream)
	if err != nil {
		local(w, http.StatusInternalServerError, "")
		return
	}
	f := &filter{e: e, w: w, stream: stream, mode: e.Mode, first: true}
	if f.mode == nil {
		f.mode = Mode()
	}
	if err := f.serve(r); err != nil && !errors.Is(err, errImmediate) {
		local(w, http.StatusInternalServerError, "") // failure_mode_allow is false
	}
}

// stay returns the context of a stream and a function that ends the stream after the
// answer. In observability mode the stream remains open for Envoy's default
// deferred_close_timeout, so that the processor can read what was sent.
func (e *Envoy) stay(ctx context.Context) (context.Context, func(procv3.ExternalProcessor_ProcessClient)) {
	var cancel context.CancelFunc
	if e.Observe {
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	return ctx, func(stream procv3.ExternalProcessor_ProcessClient) {
		if stream == nil {
			cancel()
			return
		}
		_ = stream.CloseSend() // the processor may have disconnected
		if !e.Observe {
			cancel()
			return
		}
		go func() {
			defer cancel()
			for err := error(nil); err == nil; {
				_, err = stream.Recv()
			}
		}()
	}
}

func local(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the client may have disconnected
}

func (f *filter) serve(r *http.Request) error {
	h := fromHTTP(r.Header)
	h.set(":method", r.Method)
	h.set(":path", r.RequestURI)
	h.set(":authority", r.Host)
	h.set(":scheme", "http")
	h.set("x-forwarded-proto", "http")
	empty := r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0
	got, err := f.ask(&procv3.ProcessingRequest{
		Request:    &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{Headers: h.proto(), EndOfStream: empty}},
		Attributes: attributes(f.e.Attributes),
	})
	if err != nil {
		return err
	}
	if err := h.apply(got.GetRequestHeaders().GetResponse().GetHeaderMutation()); err != nil {
		return err
	}
	var body io.Reader = http.NoBody
	if !empty {
		body = r.Body
		if !f.over && f.mode.RequestBodyMode != modev3.ProcessingMode_NONE {
			whole, err := io.ReadAll(io.LimitReader(r.Body, int64(f.e.buffer())+1))
			if err != nil {
				return err
			}
			if len(whole) > f.e.buffer() && f.mode.RequestBodyMode == modev3.ProcessingMode_BUFFERED {
				return f.local(http.StatusRequestEntityTooLarge, "request_payload_too_large", "Payload Too Large")
			}
			if whole, err = f.requestBody(h, whole); err != nil {
				return err
			}
			body = bytes.NewReader(whole)
		}
	}
	resp, err := f.forward(r, h, body, empty)
	if err != nil {
		return f.local(http.StatusServiceUnavailable, "upstream_reset_before_response_started{connection_failure}", "upstream connect error")
	}
	defer resp.Body.Close()
	rh := fromHTTP(resp.Header)
	rh.set(":status", strconv.Itoa(resp.StatusCode))
	f.trailers = func() http.Header { return resp.Trailer }
	return f.respond(rh, resp.Body, resp.ContentLength == 0 || r.Method == http.MethodHead, "via_upstream")
}

func (e *Envoy) buffer() int {
	if e.Buffer > 0 {
		return e.Buffer
	}
	return 32 << 20
}

// ask sends a message and waits for the response. An end of the stream counts as consent
// to everything.
func (f *filter) ask(q *procv3.ProcessingRequest) (*procv3.ProcessingResponse, error) {
	if f.over {
		return &procv3.ProcessingResponse{}, nil
	}
	q.ObservabilityMode = f.e.Observe
	if f.first {
		q.ProtocolConfig = &procv3.ProtocolConfiguration{RequestBodyMode: f.mode.RequestBodyMode, ResponseBodyMode: f.mode.ResponseBodyMode}
		f.first = false
	}
	if err := f.stream.Send(q); err != nil && !errors.Is(err, io.EOF) { // on io.EOF Recv returns the reason
		return nil, err
	}
	if f.e.Observe {
		return &procv3.ProcessingResponse{}, nil
	}
	got, err := f.stream.Recv()
	if errors.Is(err, io.EOF) {
		f.over = true
		return &procv3.ProcessingResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if of := got.GetDynamicMetadata().GetFields()["memproxy"]; of != nil {
		f.decision = of.GetStructValue().GetFields()["decision"].GetStringValue()
	}
	if im := got.GetImmediateResponse(); im != nil {
		f.immediate(im)
		return nil, errImmediate
	}
	if m := got.GetModeOverride(); m != nil && !f.e.NoOverride {
		f.mode = m
	}
	return got, nil
}

func (f *filter) immediate(im *procv3.ImmediateResponse) {
	h := headers{}
	if err := h.apply(im.GetHeaders()); err != nil {
		local(f.w, http.StatusInternalServerError, "")
		return
	}
	h.set("content-length", strconv.Itoa(len(im.GetBody())))
	h.to(f.w.Header())
	f.w.WriteHeader(int(im.GetStatus().GetCode()))
	_, _ = f.w.Write(im.GetBody()) // the client may have disconnected
}

// local sends one of Envoy's own answers, which also passes through the processor.
func (f *filter) local(status int, details, text string) error {
	h := headers{}
	h.set(":status", strconv.Itoa(status))
	h.set("content-type", "text/plain")
	return f.respond(h, strings.NewReader(text), false, details)
}

func (f *filter) requestBody(h headers, body []byte) ([]byte, error) {
	got, err := f.ask(&procv3.ProcessingRequest{
		Request: &procv3.ProcessingRequest_RequestBody{RequestBody: &procv3.HttpBody{Body: body, EndOfStream: true}},
	})
	if err != nil {
		return nil, err
	}
	return h.replace(got.GetRequestBody().GetResponse(), body)
}

func (f *filter) forward(r *http.Request, h headers, body io.Reader, empty bool) (*http.Response, error) {
	u, err := url.Parse(f.e.Upstream)
	if err != nil {
		return nil, err
	}
	target, err := url.ParseRequestURI(h.get(":path"))
	if err != nil {
		return nil, err
	}
	target.Scheme, target.Host = u.Scheme, u.Host
	out := &http.Request{Method: h.get(":method"), URL: target, Host: h.get(":authority"), Header: http.Header{}}
	h.to(out.Header)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // otherwise the transport adds one
	}
	if !empty {
		out.Body, out.ContentLength = io.NopCloser(body), -1
		if n, err := strconv.ParseInt(h.get("content-length"), 10, 64); err == nil {
			out.ContentLength = n
		}
	}
	t := f.e.Transport
	if t == nil {
		t = &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	}
	return t.RoundTrip(out.WithContext(r.Context()))
}

func (f *filter) respond(h headers, body io.Reader, empty bool, details string) error {
	if !f.over && f.mode.ResponseHeaderMode == modev3.ProcessingMode_SEND {
		got, err := f.ask(&procv3.ProcessingRequest{
			Request:    &procv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &procv3.HttpHeaders{Headers: h.proto(), EndOfStream: empty}},
			Attributes: attributes(map[string]any{"response.code_details": details}),
		})
		if err != nil {
			return err
		}
		if err := h.apply(got.GetResponseHeaders().GetResponse().GetHeaderMutation()); err != nil {
			return err
		}
	}
	if !f.over && !empty && f.mode.ResponseBodyMode == modev3.ProcessingMode_BUFFERED && !f.e.Observe {
		whole, err := io.ReadAll(body)
		if err != nil { // no filter sees this answer; the example's local_reply_config names the decision
			if f.decision != "" {
				f.w.Header().Set("X-Memproxy-Decision", f.decision)
			}
			local(f.w, http.StatusBadGateway, "upstream connect error or disconnect/reset before headers")
			return errImmediate
		}
		got, err := f.ask(&procv3.ProcessingRequest{
			Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{Body: whole, EndOfStream: f.ending() == nil}},
		})
		if err != nil {
			return err
		}
		if whole, err = h.replace(got.GetResponseBody().GetResponse(), whole); err != nil {
			return err
		}
		body = bytes.NewReader(whole)
	}
	status, err := strconv.Atoi(h.get(":status"))
	if err != nil {
		return err
	}
	h.to(f.w.Header())
	f.w.WriteHeader(status)
	return f.pipe(body)
}

// ending returns the answer's trailers, after its body.
func (f *filter) ending() http.Header {
	if f.trailers == nil || len(f.trailers()) == 0 {
		return nil
	}
	return f.trailers()
}

// pipe forwards a body as it arrives, through the processor if its mode is STREAMED, and
// then the trailers.
func (f *filter) pipe(body io.Reader) error {
	buf := make([]byte, 4<<10)
	for {
		n, err := body.Read(buf)
		piece := buf[:n]
		if !f.over && f.mode.ResponseBodyMode == modev3.ProcessingMode_STREAMED && !f.e.Observe && (n > 0 || err == io.EOF) {
			got, perr := f.ask(&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseBody{
				ResponseBody: &procv3.HttpBody{Body: piece, EndOfStream: err == io.EOF && f.ending() == nil},
			}})
			if perr != nil {
				panic(http.ErrAbortHandler) // Envoy resets an answer that has begun
			}
			if c := got.GetResponseBody().GetResponse(); c.GetBodyMutation() != nil {
				piece = c.GetBodyMutation().GetBody()
			}
		}
		if len(piece) > 0 {
			if _, werr := f.w.Write(piece); werr != nil {
				return errImmediate // the client has disconnected
			}
			_ = http.NewResponseController(f.w).Flush()
		}
		switch err {
		case nil:
		case io.EOF:
			return f.end()
		default:
			panic(http.ErrAbortHandler) // the backend disconnected
		}
	}
}

// end sends the trailers that the processor leaves.
func (f *filter) end() error {
	h := fromHTTP(f.ending())
	if !f.over && len(h) > 0 && f.mode.ResponseTrailerMode == modev3.ProcessingMode_SEND {
		got, err := f.ask(&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseTrailers{
			ResponseTrailers: &procv3.HttpTrailers{Trailers: h.proto()},
		}})
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if err := h.apply(got.GetResponseTrailers().GetHeaderMutation()); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	out := http.Header{}
	h.to(out)
	for name, values := range out {
		f.w.Header()[http.TrailerPrefix+name] = values
	}
	return errImmediate // already answered
}

func attributes(m map[string]any) map[string]*structpb.Struct {
	if len(m) == 0 {
		return nil
	}
	s, err := structpb.NewStruct(m)
	if err != nil {
		return nil
	}
	return map[string]*structpb.Struct{"envoy.filters.http.ext_proc": s}
}
