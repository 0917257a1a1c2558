package extproc

import (
	"errors"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
)

// DefaultExchanges is the same as the number of connections of an HTTP listener.
const DefaultExchanges = frontend.DefaultConnections

// Backend is one memory service that Envoy routes to: its Name is the value of
// BackendKey in Envoy's configuration. Envoy's own clusters determine where
// requests go; Upstream is where the processor sends its own requests. Ruling on
// runs afterwards (Ungated) requires the HTTP listener; here it is a refusal.
type Backend struct {
	frontend.Backend
	// Fetch sends the processor's own requests; nil: nothing can be fetched,
	// unknown owners remain unknown. See frontend.NewSide.
	Fetch gate.Fetcher

	follower *frontend.Follower
	gate     gate.Backend
}

// Options configure a Processor.
type Options struct {
	frontend.Runtime
	Gate *gate.Gate
	// Backends are the services. With only one, Envoy need not name it.
	Backends []Backend
	// UnfilteredReads lets Authorize admit reads, whose answers it cannot filter.
	// Without it they are refused there.
	UnfilteredReads bool

	// Exchanges bounds the concurrent requests. Default DefaultExchanges.
	Exchanges int
}

func (o *Options) complete() error {
	if o.Gate == nil || len(o.Backends) == 0 {
		return errors.New("extproc: a gate and a backend are required")
	}
	if o.Exchanges <= 0 {
		o.Exchanges = DefaultExchanges
	}
	o.Runtime.Complete()
	return nil
}

func (b *Backend) complete() error {
	if err := b.Backend.Complete(); err != nil {
		return err
	}
	if b.Ungated == gate.UngatedCompensate {
		b.Ungated = gate.UngatedDeny
	}
	b.gate = b.ForGate(b.Fetch)
	return nil
}
