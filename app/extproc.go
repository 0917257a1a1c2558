package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/face"
)

// Envoy is how Envoy reaches the processor. It is not in the configuration because
// it belongs to the wiring of one pod, as Envoy's own bootstrap does.
type Envoy struct {
	Listen              string // host:port, or unix:PATH
	Cert, Key, ClientCA string // files, PEM
	Authorize           bool   // serve ext_authz as well: decisions only
	UnfilteredReads     bool   // let ext_authz admit reads, whose answers it cannot filter
	// Grace is how long, at a stop, health reports it before connections close.
	Grace time.Duration
}

// check refuses a listener that unauthenticated peers could reach, because the
// processor trusts what the peer says about callers.
func (f *Envoy) check() error {
	if (f.Cert == "") != (f.Key == "") || f.ClientCA != "" && f.Cert == "" {
		return errors.New("extproc: --cert, --key and --client-ca go together")
	}
	if !f.anybody() {
		return nil
	}
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return fmt.Errorf("extproc: --listen: %w", err)
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("extproc: --listen is not a loopback address or a unix socket, so it needs --cert, --key and --client-ca: whoever reaches it is believed about who callers are")
}

// anybody reports whether any process of the machine can speak to the processor.
func (f *Envoy) anybody() bool { return f.ClientCA == "" && !strings.HasPrefix(f.Listen, "unix:") }

// listenExtproc serves the processor.
func (s *App) listenExtproc(f Envoy) error {
	p, err := s.processor(f.UnfilteredReads)
	if err != nil {
		return err
	}
	opt := extproc.ServerOptions{Processor: p, Authorize: f.Authorize, Grace: f.Grace, Log: s.log}
	if f.Cert != "" {
		if opt.TLS, err = listenTLS(config.TLS{Cert: f.Cert, Key: f.Key, ClientCA: f.ClientCA}); err != nil {
			return fmt.Errorf("extproc: %w", err)
		}
		if f.ClientCA != "" {
			opt.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	network, addr := "tcp", f.Listen
	if socket, ok := strings.CutPrefix(f.Listen, "unix:"); ok {
		network, addr = "unix", socket
		if err := removeSocket(socket); err != nil {
			return fmt.Errorf("extproc: %w", err)
		}
	}
	ln, err := net.Listen(network, addr)
	if err != nil {
		return fmt.Errorf("extproc: %w", err)
	}
	l := &listener{name: "extproc", addr: f.Listen, ln: ln, bounded: extproc.Bound(ln), refused: p.Refused}
	stop, failed := extproc.Serve(l.bounded, opt)
	s.group.Serve(stageListeners, l.name, stop, failed)
	s.bounded.Lock()
	defer s.bounded.Unlock()
	s.listeners = append([]*listener{l}, s.listeners...) // the first to close
	return nil
}

// removeSocket removes the socket of a killed process.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s is there and is no socket", path)
	}
	return os.Remove(path)
}

// processor builds the Envoy face over the same gate as the HTTP one.
func (s *App) processor(unfilteredReads bool) (*extproc.Processor, error) {
	opt := extproc.Options{
		Runtime: face.Runtime{Tracer: s.telemetry.Tracer(), Propagator: s.telemetry.Propagator(), Log: s.log},
		Gate:    s.gate, UnfilteredReads: unfilteredReads,
	}
	for _, b := range s.cfg.Backends {
		backend, err := behindEnvoy(s, b)
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
func behindEnvoy(s *App, b config.Backend) (extproc.Backend, error) {
	o, err := s.proxyOptions(b)
	if err != nil {
		return extproc.Backend{}, err
	}
	out := extproc.Backend{Backend: o.Backend}
	out.Fetch, err = face.NewSide(face.SideOptions{Upstream: o.Upstream, Transport: o.SideTransport, InFlight: o.InFlight.Side(), Credential: o.Credential, Propagator: o.Propagator})
	s.group.Own(stageProxies, func(context.Context) error {
		if t, ok := o.SideTransport.(*http.Transport); ok {
			t.CloseIdleConnections()
		}
		return nil
	})
	return out, err
}
