package proxy

import (
	"cmp"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
)

// Defaults of Options.
const (
	// DefaultBodyTimeout is how long one read of a body may wait.
	DefaultBodyTimeout = 30 * time.Second
	// DefaultUpstreamTimeout is how long the Mem0 Python client waits at most.
	DefaultUpstreamTimeout = 300 * time.Second
	DefaultRunTimeout      = 30 * time.Minute
	// DefaultReconcile is how long an interrupted turn's pause waits by default.
	DefaultReconcile = 30 * time.Second
)

// Options configure one backend's listener.
type Options struct {
	frontend.Backend
	frontend.Runtime
	Gate *gate.Gate
	// Transport sends to the upstream. The default is NewTransport(nil, 0).
	Transport http.RoundTripper
	// PassTransport sends requests that access no memory, and SideTransport memproxy's
	// own. Each has separate connections, so that none of the three can exhaust
	// another's. The default is NewTransport(nil, 0).
	PassTransport, SideTransport http.RoundTripper
	// RunTimeout bounds an agent's turn, with all its requests. The default is 30 min.
	RunTimeout time.Duration

	// Journal is the directory of turns in progress and of runs that are admitted and
	// compensated; Ungated requires it for the latter. Its files contain memories.
	Journal string
	// Reconcile is how long an agent whose turn was interrupted waits until its pending
	// calls are declined. With zero it waits until its next turn.
	Reconcile time.Duration

	// Steps is called at points at which a crash must lose nothing, if it is not nil.
	Steps memproxy.Stepper
}

func (o *Options) complete() error {
	if err := o.Backend.Complete(); err != nil {
		return err
	}
	o.Runtime.Complete()
	o.UpstreamTimeout = cmp.Or(max(o.UpstreamTimeout, 0), DefaultUpstreamTimeout)
	o.RunTimeout = cmp.Or(max(o.RunTimeout, 0), DefaultRunTimeout)
	for _, t := range [...]*http.RoundTripper{&o.Transport, &o.PassTransport, &o.SideTransport} {
		if *t == nil {
			*t = NewTransport(nil, 0)
		}
	}
	// NewSide wraps the third.
	o.Transport, o.PassTransport = frontend.NoUpgrade(o.Transport), frontend.NoUpgrade(o.PassTransport)
	return nil
}
