package extproctest

import (
	"errors"
	"io"
	"net"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
)

// noop answers every message with "continue", to measure external processing itself.
type noop struct{}

func (noop) Process(s procv3.ExternalProcessor_ProcessServer) error {
	for {
		q, err := s.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r := &procv3.ProcessingResponse{}
		switch q.Request.(type) {
		case *procv3.ProcessingRequest_RequestHeaders:
			r.Response = &procv3.ProcessingResponse_RequestHeaders{RequestHeaders: &procv3.HeadersResponse{}}
		case *procv3.ProcessingRequest_RequestBody:
			r.Response = &procv3.ProcessingResponse_RequestBody{RequestBody: &procv3.BodyResponse{}}
		case *procv3.ProcessingRequest_RequestTrailers:
			r.Response = &procv3.ProcessingResponse_RequestTrailers{RequestTrailers: &procv3.TrailersResponse{}}
		case *procv3.ProcessingRequest_ResponseHeaders:
			r.Response = &procv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &procv3.HeadersResponse{}}
		case *procv3.ProcessingRequest_ResponseBody:
			r.Response = &procv3.ProcessingResponse_ResponseBody{ResponseBody: &procv3.BodyResponse{}}
		case *procv3.ProcessingRequest_ResponseTrailers:
			r.Response = &procv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &procv3.TrailersResponse{}}
		}
		if err := s.Send(r); err != nil {
			return err
		}
	}
}

// ServeNoop serves the processor that does nothing, until the listener closes.
func ServeNoop(ln net.Listener) error {
	srv := grpc.NewServer()
	procv3.RegisterExternalProcessorServer(srv, noop{})
	return srv.Serve(ln)
}
