package extproc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime/debug"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/wait"
)

// ServerOptions configure the gRPC listener.
type ServerOptions struct {
	Processor *Processor
	// Authorize also serves ext_authz.
	Authorize bool
	// TLS should require client certificates, because the processor trusts its peer about
	// the identity of callers. nil is plain text, for a loopback address or a socket that
	// only Envoy can reach.
	TLS *tls.Config
	// Grace is how long the health check reports "not serving" at a stop before
	// connections are asked to close, so that Envoy can switch to other instances. The
	// default is 0.
	Grace time.Duration
	Log   *slog.Logger
}

// Limits of the transport.
const (
	// headRoom is the maximum size of a message without its body, in bytes: headers and
	// framing.
	headRoom   = 1 << 20
	maxStreams = math.MaxUint32
	// pingAfter is when an idle connection is pinged, to detect an Envoy that has
	// disappeared without closing it.
	pingAfter = 30 * time.Second
	pingWait  = 10 * time.Second
	// connectWithin is the timeout of handshakes, and maxConns the maximum number of
	// connections. An Envoy has one connection for each of its threads.
	connectWithin = 10 * time.Second
	maxConns      = 1024
)

// Limit returns a listener with the limits that Serve needs.
func Limit(ln net.Listener) *frontend.Listener {
	return frontend.Limit(ln, frontend.ListenOptions{Connections: maxConns, NoEviction: true})
}

// Serve serves Envoy on the listener until stop is called. stop reports NOT_SERVING,
// refuses new streams and waits for those in progress until its context ends. failed
// receives the error if serving ends by itself.
func Serve(ln *frontend.Listener, o ServerOptions) (stop func(context.Context) error, failed <-chan error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	g := guard{o.Log}
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(o.Processor.maxBodySize() + headRoom),
		grpc.MaxSendMsgSize(o.Processor.maxBodySize() + headRoom),
		grpc.MaxConcurrentStreams(maxStreams), // beyond the processor's own limit streams are refused; a queue here would only delay that
		grpc.ConnectionTimeout(connectWithin),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.StreamInterceptor(g.stream), grpc.UnaryInterceptor(g.unary),
	}
	if o.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	srv := grpc.NewServer(opts...)
	procv3.RegisterExternalProcessorServer(srv, o.Processor)
	if o.Authorize {
		authv3.RegisterAuthorizationServer(srv, o.Processor)
	}
	hs := health.NewServer()
	hs.SetServingStatus(procv3.ExternalProcessor_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(srv, hs)
	errs := make(chan error, 1)
	go func() {
		if err := srv.Serve(ln); err != nil {
			errs <- err
		}
	}()
	return func(ctx context.Context) error {
		hs.Shutdown()
		_ = wait.Sleep(ctx, o.Grace) // or until ctx ends
		err := wait.For(ctx, srv.GracefulStop)
		if err == nil {
			return nil
		}
		// The remaining streams are reset, and Envoy refuses their requests. Their
		// handlers record that.
		cut, cancel := context.WithTimeout(context.Background(), cutTime)
		defer cancel()
		if wait.For(cut, srv.Stop) != nil {
			err = errors.Join(err, errors.New("extproc: aborted exchanges have not returned"))
		}
		return err
	}, errs
}

// cutTime is how long exchanges may take to return after a stop has reset them.
const cutTime = 3 * time.Second

func (p *Processor) maxBodySize() int {
	var n int64
	for _, b := range p.backends {
		n = max(n, b.MaxBody, b.MaxAnswer)
	}
	return int(min(n, math.MaxInt32-headRoom))
}

// guard turns a panic into a refusal of the request, as net/http does.
type guard struct{ log *slog.Logger }

func (g guard) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer g.recovered(ss.Context(), &err)
	return next(srv, ss)
}

func (g guard) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
	defer g.recovered(ctx, &err)
	return next(ctx, req)
}

func (g guard) recovered(ctx context.Context, err *error) {
	if v := recover(); v != nil {
		g.log.ErrorContext(ctx, "panic", "value", fmt.Sprint(v), "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "memproxy failed to process this request")
	}
}
