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

type headerMutation = procv3.HeaderMutation

// change is what one of Envoy's messages leads to. The zero value changes nothing.
type change struct {
	headers *headerMutation
	body    *procv3.BodyMutation      // nil leaves the body unchanged
	next    *modev3.ProcessingMode    // the messages that Envoy sends next; nil for those as configured
	instead *procv3.ImmediateResponse // answers the client in place of the backend
}

// response returns the change in the form for a message. Envoy treats a response of
// another type as a fault and refuses the request.
func (c *change) response(msg *procv3.ProcessingRequest) *procv3.ProcessingResponse {
	r := &procv3.ProcessingResponse{ModeOverride: c.next}
	if c.instead != nil {
		r.Response = &procv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: c.instead}
		return r
	}
	common := &procv3.CommonResponse{HeaderMutation: c.headers, BodyMutation: c.body}
	switch msg.Request.(type) {
	case *procv3.ProcessingRequest_RequestHeaders:
		r.Response = &procv3.ProcessingResponse_RequestHeaders{RequestHeaders: &procv3.HeadersResponse{Response: common}}
	case *procv3.ProcessingRequest_RequestBody:
		r.Response = &procv3.ProcessingResponse_RequestBody{RequestBody: &procv3.BodyResponse{Response: common}}
	case *procv3.ProcessingRequest_RequestTrailers:
		r.Response = &procv3.ProcessingResponse_RequestTrailers{RequestTrailers: &procv3.TrailersResponse{HeaderMutation: c.headers}}
	case *procv3.ProcessingRequest_ResponseHeaders:
		r.Response = &procv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &procv3.HeadersResponse{Response: common}}
	case *procv3.ProcessingRequest_ResponseBody:
		r.Response = &procv3.ProcessingResponse_ResponseBody{ResponseBody: &procv3.BodyResponse{Response: common}}
	case *procv3.ProcessingRequest_ResponseTrailers:
		r.Response = &procv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &procv3.TrailersResponse{HeaderMutation: c.headers}}
	}
	return r
}

func replaceBody(by []byte) *procv3.BodyMutation {
	return &procv3.BodyMutation{Mutation: &procv3.BodyMutation_Body{Body: by}}
}

// removeTrailers removes the trailers of a request or an answer. No trailer has a claim.
func removeTrailers(t *procv3.HttpTrailers) *change {
	_, trailers := headers(t.GetTrailers())
	return &change{headers: changes(trailers, nil)}
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

// wholeExchange requests the whole request and its answer, with trailers: a request without a
// body may end in trailers, and the trailers of an answer are removed.
func wholeExchange() *modev3.ProcessingMode {
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

func immediate(reply memproxy.Reply, d *memproxy.Decision) *change {
	h := http.Header{}
	maps.Copy(h, http.Header(reply.Header))
	if d.ID != "" {
		frontend.DisableCaching(h)
		h.Set(frontend.DecisionHeader, frontend.FormatDecision(d))
	}
	return &change{instead: &procv3.ImmediateResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode(reply.Status)},
		Headers: changes(nil, h), Body: reply.Body, Details: "memproxy_" + d.Verdict.String(),
	}}
}
