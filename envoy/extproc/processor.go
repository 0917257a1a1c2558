package extproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
)

// BackendKey is the key of the stream's initial metadata with which Envoy's configuration
// names the backend of a route.
const BackendKey = "x-memproxy-backend"

// Processor serves Envoy's external processing and authorization. It is safe for
// concurrent use.
type Processor struct {
	opt      Options
	underway atomic.Int64 // number of exchanges in progress
	refused  atomic.Int64
	backends map[string]*backend
}

// New returns a processor.
func New(opt Options) (*Processor, error) {
	if opt.Gate == nil || len(opt.Backends) == 0 {
		return nil, errors.New("extproc: a gate and a backend are required")
	}
	opt.Exchanges = cmp.Or(max(opt.Exchanges, 0), DefaultExchanges)
	opt.Complete()
	p := &Processor{opt: opt, backends: make(map[string]*backend, len(opt.Backends))}
	for _, b := range opt.Backends {
		if err := b.Complete(); err != nil {
			return nil, err
		}
		if p.backends[b.Name] != nil {
			return nil, fmt.Errorf("extproc: duplicate backend name %q", b.Name)
		}
		if b.Ungated == gate.UngatedCompensate {
			b.Ungated = gate.UngatedDeny
		}
		b.UpstreamTimeout = 0 // Envoy has its own
		p.backends[b.Name] = &backend{b, frontend.NewFollower(opt.Gate, b.Fetch, b.Name, opt.Runtime)}
	}
	return p, nil
}

// Refused returns how many requests exceeded Options.Exchanges since the start.
func (p *Processor) Refused() int64 { return p.refused.Load() }

// Close ends the background work, after the streams have ended.
func (p *Processor) Close(ctx context.Context) error {
	var errs []error
	for _, b := range p.backends {
		errs = append(errs, b.follower.Close(ctx))
	}
	return errors.Join(errs...)
}

// errBackend means that Envoy's configuration does not name a configured backend.
var errBackend = errors.New("the stream names no configured backend; set " + BackendKey + " in the initial metadata of Envoy's gRPC service")

// backend returns the named backend. All names must be the same. If there is only one
// backend, no name is needed.
func (p *Processor) backend(names []string) (*backend, error) {
	if len(names) == 0 && len(p.backends) == 1 {
		names = slices.Collect(maps.Keys(p.backends))
	}
	if names = slices.Compact(slices.Clone(names)); len(names) == 1 && p.backends[names[0]] != nil {
		return p.backends[names[0]], nil
	}
	return nil, errBackend
}

// enter counts a request that begins, and refuses it if there are too many.
func (p *Processor) enter() error {
	if p.underway.Add(1) > int64(p.opt.Exchanges) {
		p.refused.Add(1)
		return status.Error(codes.ResourceExhausted, "too many requests in flight")
	}
	return nil
}

// Process serves one stream, which is one request. It implements Envoy's
// ExternalProcessor service.
func (p *Processor) Process(stream procv3.ExternalProcessor_ProcessServer) error {
	ctx := stream.Context()
	defer p.underway.Add(-1)
	if err := p.enter(); err != nil {
		return err
	}
	x := newExchange(p)
	defer x.end()
	md, _ := metadata.FromIncomingContext(ctx)
	var err error
	if x.b, err = p.backend(md.Get(BackendKey)); err != nil {
		p.opt.Log.ErrorContext(ctx, "Envoy's configuration is invalid", "error", err)
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	for {
		msg, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil // Envoy has finished the request
			}
			return err
		}
		answer, err := x.take(ctx, msg)
		if err != nil {
			p.opt.Log.ErrorContext(ctx, "stream refused", "backend", x.b.Name, "error", err)
			return status.Error(codes.FailedPrecondition, err.Error())
		}
		if answer != nil {
			err = stream.Send(answer)
		}
		if err != nil {
			return err
		}
		if x.over {
			// End the stream only after an answer, or when none is expected: Envoy treats
			// an end as consent to everything that follows.
			return nil
		}
	}
}

// Errors of Envoy's configuration and of its protocol.
var (
	errProtocol      = errors.New("unexpected message order")
	errModes         = errors.New("the filter must have request_body_mode and response_body_mode BUFFERED (with allow_mode_override, bodies outside the memory API are skipped); otherwise memproxy sees no bodies")
	errObservability = errors.New("observability mode requires request_body_mode STREAMED, because Envoy sends no other bodies in it")
)

// checkModes checks Envoy's protocol configuration: no body may pass before it was ruled
// on. Envoy 1.34 and later sends the configuration in its first message.
func checkModes(c *procv3.ProtocolConfiguration) error {
	if c.GetRequestBodyMode() != modev3.ProcessingMode_BUFFERED || c.GetResponseBodyMode() != modev3.ProcessingMode_BUFFERED ||
		c.GetSendBodyWithoutWaitingForHeaderResponse() {
		return errModes
	}
	return nil
}

// DefaultExchanges is the default of Options.Exchanges. It equals the number of
// connections of an HTTP listener.
const DefaultExchanges = frontend.DefaultConnections

// backend is one memory service to which Envoy routes.
type backend struct {
	frontend.Backend
	follower *frontend.Follower
}

// Options configure a Processor.
type Options struct {
	frontend.Runtime
	Gate *gate.Gate
	// Backends are the memory services, by the values of BackendKey in Envoy's configuration;
	// if there is only one, Envoy need not name it. Envoy's clusters determine where client
	// requests go; Upstream is where the processor sends its own requests. A run that is to
	// be ruled on afterwards (Ungated) is refused here, because that requires the HTTP
	// listener.
	Backends []frontend.Backend
	// UnfilteredReads lets Check admit reads that are narrowed to what the caller may see.
	UnfilteredReads bool

	// Exchanges is the maximum number of concurrent requests. The default is
	// DefaultExchanges.
	Exchanges int
}
