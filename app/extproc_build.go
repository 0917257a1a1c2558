package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/face"
)

// processor builds the Envoy face over the same gate as the HTTP one.
func (s *App) processor(unfilteredReads bool) (*extproc.Processor, error) {
	opt := extproc.Options{
		Gate: s.gate, UnfilteredReads: unfilteredReads,
		Tracer: s.telemetry.Tracer(), Propagator: s.telemetry.Propagator(), Log: s.log,
	}
	for _, b := range s.cfg.Backends {
		backend, err := s.behindEnvoy(b)
		if err != nil {
			return nil, fmt.Errorf("backend %s: %w", b.Name, err)
		}
		opt.Backends = append(opt.Backends, backend)
	}
	p, err := extproc.New(opt)
	if err == nil {
		s.group.Own(stageProxies, p.Close)
	}
	return p, err
}

// behindEnvoy is a backend as the HTTP face has it, in the Envoy face's terms.
func (s *App) behindEnvoy(b config.Backend) (extproc.Backend, error) {
	o, err := s.proxyOptions(b)
	if err != nil {
		return extproc.Backend{}, err
	}
	out := extproc.Backend{
		Name: o.Name, Adapter: o.Adapter, Upstream: o.Upstream, Passthrough: o.Passthrough,
		MaxBody: o.MaxBody, MaxAnswer: o.MaxAnswer, Observe: o.Observe, Ungated: o.Ungated, Tenant: o.Tenant, InFlight: o.InFlight,
	}
	out.Credential = o.Credential
	out.Fetch, err = face.NewSide(face.SideOptions{Upstream: o.Upstream, Transport: o.SideTransport, InFlight: o.InFlight.Side(), Credential: o.Credential, Propagator: o.Propagator})
	s.group.Own(stageProxies, func(context.Context) error {
		if t, ok := o.SideTransport.(*http.Transport); ok {
			t.CloseIdleConnections()
		}
		return nil
	})
	return out, err
}
