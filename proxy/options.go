package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
)

// Defaults of Options.
const (
	// DefaultBodyTimeout bounds how long a client may take to send a body.
	DefaultBodyTimeout = 30 * time.Second
	// DefaultUpstreamTimeout is the longest that the Mem0 Python client waits.
	DefaultUpstreamTimeout = 300 * time.Second
	DefaultRunTimeout      = 30 * time.Minute
	// DefaultReconcile is how long a pause may wait by default.
	DefaultReconcile = 30 * time.Second
)

// Options configure one backend's listener.
type Options struct {
	frontend.Backend
	frontend.Runtime
	Gate *gate.Gate
	// Transport sends to the upstream. Nil: NewTransport(nil, 0).
	Transport http.RoundTripper
	// PassTransport sends requests that touch no memory, and SideTransport the proxy's
	// own. Each has separate connections, so that none of the three can use up
	// another's. Nil: NewTransport(nil, 0).
	PassTransport, SideTransport http.RoundTripper
	BodyTimeout                  time.Duration
	// UpstreamTimeout bounds the time until the backend answers, and between two parts
	// of a streamed answer, which may last for longer. Letta sends a keep-alive every
	// 20 s.
	UpstreamTimeout time.Duration
	// RunTimeout is UpstreamTimeout for an agent's turn, with all its requests.
	// Default 30 min.
	RunTimeout time.Duration

	// Journal is the directory for turns in progress and for runs that are admitted and
	// compensated; Ungated requires it for those. Its files contain memories.
	Journal string
	// Reconcile is how long an agent may wait after its turn was interrupted until its
	// pending calls are declined. Zero: until its next turn.
	Reconcile time.Duration

	// Steps is notified of points at which a crash must lose nothing. Nil: not
	// notified.
	Steps memproxy.Stepper
}

func (o *Options) complete() error {
	if o.Gate == nil {
		return errors.New("proxy: a gate is required")
	}
	if err := o.Backend.Complete(); err != nil {
		return err
	}
	switch o.Ungated {
	case gate.UngatedByProfile, gate.UngatedDeny:
	case gate.UngatedCompensate:
		if o.Journal == "" {
			return errors.New("proxy: compensation needs a journal")
		}
	default:
		return fmt.Errorf("proxy: ungated runs cannot be met with %q", o.Ungated)
	}
	o.Runtime.Complete()
	o.BodyTimeout = cmp.Or(max(o.BodyTimeout, 0), DefaultBodyTimeout)
	o.UpstreamTimeout = cmp.Or(max(o.UpstreamTimeout, 0), DefaultUpstreamTimeout)
	o.RunTimeout = cmp.Or(max(o.RunTimeout, 0), DefaultRunTimeout)
	for _, t := range [...]*http.RoundTripper{&o.Transport, &o.PassTransport, &o.SideTransport} {
		if *t == nil {
			*t = NewTransport(nil, 0)
		}
		*t = frontend.NoUpgrade(*t)
	}
	return nil
}
