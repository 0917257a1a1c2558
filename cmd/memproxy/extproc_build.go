package main

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/ledger"
)

// processor builds the Envoy face over the same gate as the HTTP one.
func (s *sidecar) processor(unfilteredReads bool) (*extproc.Processor, error) {
	watch, err := s.watchingGate()
	if err != nil {
		return nil, err
	}
	opt := extproc.Options{
		Gate: s.gate, Watch: watch, UnfilteredReads: unfilteredReads,
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
		s.onClose(p.Close)
	}
	return p, err
}

// behindEnvoy is a backend as the HTTP face has it, in the Envoy face's terms.
func (s *sidecar) behindEnvoy(b config.Backend) (extproc.Backend, error) {
	o, err := s.proxyOptions(b)
	if err != nil {
		return extproc.Backend{}, err
	}
	out := extproc.Backend{
		Name: o.Name, Adapter: o.Adapter, Upstream: o.Upstream, Passthrough: o.Passthrough,
		MaxBody: o.MaxBody, MaxAnswer: o.MaxAnswer, Observe: o.Observe, Ungated: o.Ungated,
	}
	out.Credential = o.Credential
	out.Fetch, err = face.NewSide(face.SideOptions{Upstream: o.Upstream, Transport: o.Transport, Credential: o.Credential, Propagator: o.Propagator})
	return out, err
}

// watchingGate rules where nothing can be enforced: Envoy's observability
// mode. It shares everything with the gate but the enforcement.
func (s *sidecar) watchingGate() (*gate.Gate, error) {
	identifier, err := buildIdentifier(s.cfg)
	if err != nil {
		return nil, err
	}
	keys, err := ledger.LoadOrCreateKey(s.path("keys"), rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ledger.NewSigner(keys)
	if err != nil {
		return nil, err
	}
	rules := *s.rules.current()
	rules.Enforce = false
	return gate.New(gate.Options{
		Identifier: identifier, Ledger: s.ledger, Budget: s.budget, Recorder: s.audit, Signer: signer,
		Clock: time.Now, NewID: newID, Keeper: keeper{s.ledger}, RefuseHolds: s.cfg.Review.Answer == "refuse", Later: s.later.run,
		Tracer: s.telemetry.Tracer(), Meter: s.fleet.tally, Log: s.log,
	}, &rules)
}
