package extproc

import (
	"maps"
	"net/http"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// Responses to Envoy's messages. Envoy treats a response of the wrong type as a fault and
// refuses the request.

type response = procv3.ProcessingResponse

type headerMutation = procv3.HeaderMutation

// replaced returns the mutation that replaces a body. A nil mutation leaves the body
// unchanged.
func replaced(by []byte) *procv3.BodyMutation {
	return &procv3.BodyMutation{Mutation: &procv3.BodyMutation_Body{Body: by}}
}

func onRequestHeaders(m *headerMutation, next *modev3.ProcessingMode) *response {
	return &response{ModeOverride: next, Response: &procv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &procv3.HeadersResponse{Response: &procv3.CommonResponse{HeaderMutation: m}},
	}}
}

func onRequestBody(m *headerMutation, b *procv3.BodyMutation) *response {
	return &response{Response: &procv3.ProcessingResponse_RequestBody{
		RequestBody: &procv3.BodyResponse{Response: &procv3.CommonResponse{HeaderMutation: m, BodyMutation: b}},
	}}
}

func onResponseHeaders(m *headerMutation) *response {
	return &response{Response: &procv3.ProcessingResponse_ResponseHeaders{
		ResponseHeaders: &procv3.HeadersResponse{Response: &procv3.CommonResponse{HeaderMutation: m}},
	}}
}

func onResponseBody(m *headerMutation, b *procv3.BodyMutation) *response {
	return &response{Response: &procv3.ProcessingResponse_ResponseBody{
		ResponseBody: &procv3.BodyResponse{Response: &procv3.CommonResponse{HeaderMutation: m, BodyMutation: b}},
	}}
}

func onRequestTrailers(t *procv3.HttpTrailers) *response {
	return &response{Response: &procv3.ProcessingResponse_RequestTrailers{RequestTrailers: untrailed(t)}}
}

func onResponseTrailers(t *procv3.HttpTrailers) *response {
	return &response{Response: &procv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: untrailed(t)}}
}

// untrailed removes the trailers of a request or an answer. No trailer has a claim.
func untrailed(t *procv3.HttpTrailers) *procv3.TrailersResponse {
	_, trailers := headers(t.GetTrailers())
	return &procv3.TrailersResponse{HeaderMutation: changes(trailers, nil)}
}

// answerIn requests all trailers, the answer's headers, and the answer's body in a mode:
// NONE, BUFFERED, or STREAMED as it arrives. It does not request the request's body.
func answerIn(mode modev3.ProcessingMode_BodySendMode) *modev3.ProcessingMode {
	return &modev3.ProcessingMode{
		RequestHeaderMode: modev3.ProcessingMode_SEND, ResponseHeaderMode: modev3.ProcessingMode_SEND,
		RequestBodyMode: modev3.ProcessingMode_NONE, ResponseBodyMode: mode,
		RequestTrailerMode: modev3.ProcessingMode_SEND, ResponseTrailerMode: modev3.ProcessingMode_SEND,
	}
}

func headersOnly() *modev3.ProcessingMode { return answerIn(modev3.ProcessingMode_NONE) }

func answerOnly() *modev3.ProcessingMode { return answerIn(modev3.ProcessingMode_BUFFERED) }

// whole requests the whole request and its answer, with trailers: a request without a
// body may end in trailers, and the trailers of an answer are removed.
func whole() *modev3.ProcessingMode {
	mode := answerOnly()
	mode.RequestBodyMode = modev3.ProcessingMode_BUFFERED
	return mode
}

// decisionMetadata returns the decision header as dynamic metadata for Envoy's access log
// and local replies: %DYNAMIC_METADATA(memproxy:decision)%.
func decisionMetadata(header string) *structpb.Struct {
	in := map[string]*structpb.Value{"decision": structpb.NewStringValue(header)}
	return &structpb.Struct{Fields: map[string]*structpb.Value{"memproxy": structpb.NewStructValue(&structpb.Struct{Fields: in})}}
}

// immediate answers the client in place of the backend.
func immediate(reply memproxy.Reply, d *memproxy.Decision) *response {
	h := http.Header{}
	maps.Copy(h, http.Header(reply.Header))
	if d.ID != "" {
		frontend.DisableCaching(h)
		h.Set(frontend.DecisionHeader, frontend.Decision(d))
	}
	return &response{Response: &procv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &procv3.ImmediateResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode(reply.Status)},
		Headers: changes(nil, h), Body: reply.Body, Details: "memproxy_" + d.Verdict.String(),
	}}}
}
