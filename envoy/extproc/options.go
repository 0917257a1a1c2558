package extproc

import (
	"errors"
	"fmt"

	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
)

// DefaultExchanges is what a listener of the HTTP face has connections.
const DefaultExchanges = face.DefaultConnections

// Backend is one memory service that Envoy routes to: its Name is what Envoy's
// configuration calls it, in BackendKey. Envoy's own clusters say where requests
// go; Upstream is where the processor itself asks whose memories are. To rule on
// runs afterwards (Ungated) takes the HTTP face; here that is a refusal.
type Backend struct {
	face.Backend
	// Fetch makes the processor's own requests; nil: nothing can be asked, unknown
	// owners stay unknown. See face.NewSide.
	Fetch gate.Fetcher

	patterns face.Patterns
	follower *face.Follower
	gate     gate.Backend
}

// Options configure a Processor.
type Options struct {
	face.Runtime
	Gate *gate.Gate
	// Backends are the services. With only one, Envoy need not name it.
	Backends []Backend
	// UnfilteredReads lets Authorize admit reads, of which it cannot filter
	// the answers. Without it they are refused there.
	UnfilteredReads bool

	// Exchanges bounds the requests that are under way at once. Default
	// DefaultExchanges.
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
	if b.Name == "" || b.Adapter == nil {
		return errors.New("extproc: a backend needs a name and an adapter")
	}
	b.Backend.Complete()
	var err error
	if b.patterns, err = face.ParsePatterns(b.Passthrough); err != nil {
		return fmt.Errorf("extproc: %w", err)
	}
	if b.Ungated == gate.UngatedCompensate {
		b.Ungated = gate.UngatedDeny
	}
	b.gate = b.ForGate(b.Fetch)
	return nil
}
