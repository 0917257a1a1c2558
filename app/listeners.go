package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/tlsfile"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// listener is one address and its handler.
type listener struct {
	name, addr string
	handler    http.Handler
	tls        *tls.Config
	ln         net.Listener
	limited    *frontend.Listener // ln with its limits
	inFlight   *frontend.InFlight // memory budget of its requests; nil if it is not limited
	refused    func() int64       // number of requests over the processor's limit; nil if it has none
	cut        func()             // cancels requests that outlive their callers; nil if there are none
	bodies     time.Duration      // timeout of request bodies; 0 is the default
}

// buildListeners builds a proxy for each backend, and the admin listener.
func (s *App) buildListeners() error {
	for _, b := range s.cfg.Backends {
		opt, err := s.proxyOptions(b)
		if err != nil {
			return fmt.Errorf("backend %s: %w", b.Name, err)
		}
		p, err := proxy.New(opt)
		if err != nil {
			return fmt.Errorf("backend %s: %w", b.Name, err)
		}
		s.proxies = append(s.proxies, p)
		s.group.Own(stageProxies, p.Close)
		l := &listener{name: b.Name, addr: b.Listen, handler: p, cut: p.AbortAll, bodies: b.Timeouts.Body.Std(), inFlight: opt.InFlight}
		if b.TLS.Cert != "" {
			if l.tls, err = listenTLS(b.TLS, s.log); err != nil {
				return fmt.Errorf("backend %s: tls: %w", b.Name, err)
			}
		}
		s.listeners = append(s.listeners, l)
	}
	s.listeners = append(s.listeners, &listener{name: "admin", addr: s.cfg.Admin.Listen, cut: s.review.Runner.AbortAll, handler: adminPages(s, s.review)})
	if addr := s.cfg.Admin.Probes; addr != "" {
		s.listeners = append(s.listeners, &listener{name: "probes", addr: addr, handler: proxy.NewAdmin(proxy.AdminOptions{
			Ready: s.ready, Metrics: s.telemetry.Metrics(), Hosts: s.cfg.Admin.Hosts,
		})})
	}
	return nil
}

// adminPages returns the pages of the admin listener or of the operator's socket. They
// differ only in who may review.
func adminPages(s *App, review http.Handler) http.Handler {
	return proxy.NewAdmin(proxy.AdminOptions{
		Review: review, Hosts: s.cfg.Admin.Hosts,
		Ready: s.ready, Metrics: s.telemetry.Metrics(), Spans: s.telemetry.Spans(),
	})
}

func adapterFor(b config.Backend, sources memproxy.SourceNames) (backend.Adapter, error) {
	switch b.Kind {
	case "letta":
		return letta.New(letta.Options{ConfidenceKeys: b.ConfidenceKeys, Sources: sources, MaxDepth: b.Limits.Depth})
	case "mem0":
	default:
		return nil, fmt.Errorf("unknown kind %q", b.Kind)
	}
	return mem0.New(mem0.Options{ConfidenceKeys: b.ConfidenceKeys, Sources: sources, FieldKey: b.FieldKey, MaxDepth: b.Limits.Depth})
}

// backendOf returns the part of a backend's configuration that determines how requests
// are classified and ruled on. It is the same for the listeners and for Explain.
func backendOf(b config.Backend, sources memproxy.SourceNames) (frontend.Backend, error) {
	adapter, err := adapterFor(b, sources)
	return frontend.Backend{
		Backend:     gate.Backend{Name: b.Name, Adapter: adapter, Ungated: gate.Ungated(b.Ungated), Tenant: b.Tenant, UpstreamTimeout: b.Timeouts.Upstream.Std()},
		Passthrough: b.Passthrough, MaxBody: b.Limits.Body, MaxAnswer: b.Limits.Answer,
	}, err
}

func (s *App) proxyOptions(b config.Backend) (proxy.Options, error) {
	backend, err := backendOf(b, s.cfg.Sources.Table())
	if err != nil {
		return proxy.Options{}, err
	}
	upstream, _ := url.Parse(b.Upstream) // Load has checked it
	trusted, err := upstreamTLS(b.TLS)
	if err != nil {
		return proxy.Options{}, fmt.Errorf("tls.upstream_ca: %w", err)
	}
	backend.Upstream, backend.Credential, backend.InFlight = upstream, credentialOf(b), frontend.NewInFlight(s.cfg.Limits.InFlight, s.cfg.Limits.InFlightPerAddress)
	backend.SideTimeout, backend.Observe = s.opt.within(gate.DefaultFetchTimeout), s.telemetry.Instruments().Observer(b.Name)
	opt := proxy.Options{
		Backend: backend,
		Runtime: frontend.Runtime{Clock: s.clock, Tracer: s.telemetry.Tracer(), Propagator: s.telemetry.Propagator(), Log: s.log}, Gate: s.gate,
		RunTimeout: b.Timeouts.Run.Std(),
		Journal:    s.path("runs", "of-"+url.PathEscape(b.Name)), Reconcile: b.Reconcile.Std(),
		Steps: s.opt.Steps,
	}
	for _, via := range [...]*http.RoundTripper{&opt.Transport, &opt.PassTransport, &opt.SideTransport} {
		if *via = s.opt.Transport; *via == nil {
			*via = proxy.NewTransport(trusted, s.opt.within(proxy.DefaultConnectTimeout))
		}
	}
	return opt, nil
}

// upstreamTLS returns a TLS configuration that trusts the configured roots, or the
// system's if there are none.
func upstreamTLS(t config.TLS) (*tls.Config, error) {
	if t.UpstreamCA == "" {
		return nil, nil
	}
	pool, err := tlsfile.Roots(t.UpstreamCA)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// listenTLS returns a listener's TLS configuration. If client roots are configured, a
// presented certificate is verified; callers without one are identified in other ways.
func listenTLS(t config.TLS, log *slog.Logger) (*tls.Config, error) {
	cert, err := tlsfile.Open(t.Cert, t.Key, log)
	if err != nil {
		return nil, fmt.Errorf("cert and key: %w", err)
	}
	conf := &tls.Config{GetCertificate: cert.Server, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if t.ClientCA != "" {
		if conf.ClientCAs, err = tlsfile.Roots(t.ClientCA); err != nil {
			return nil, fmt.Errorf("client_ca: %w", err)
		}
		conf.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return conf, nil
}

// Listen opens every address and starts to serve.
func (s *App) Listen() error {
	for _, l := range s.listeners {
		ln, err := net.Listen("tcp", l.addr)
		if err != nil {
			return fmt.Errorf("%s: %w; choose another listen address, or stop what uses it", l.name, err)
		}
		l.ln = ln
	}
	if err := s.listenLocal(); err != nil {
		return err
	}
	s.logReviewers()
	for _, p := range s.proxies {
		if err := p.Runs().Resettle(s.clock()); err != nil { // before serving, so that agents of leftover runs are locked
			s.log.Error("the journal of runs cannot be read", "error", err)
		}
	}
	for _, l := range s.listeners {
		l.limited = frontend.Limit(l.ln, frontend.ListenOptions{
			WriteTimeout: s.cfg.Limits.Write.Std(), Connections: s.cfg.Limits.Connections, ConnectionsPeer: s.cfg.Limits.PerAddress, Backends: len(s.cfg.Backends),
		})
		stop, failed := proxy.Serve(l.limited, proxy.ServerOptions{Handler: l.handler, TLS: l.tls, BodyTimeout: l.bodies, Cut: l.cut, Log: s.log})
		s.group.Serve(stageListeners, l.name, stop, failed)
		if err := s.observe(l); err != nil {
			return err
		}
	}
	s.group.Own(stageNotes, func(context.Context) error { s.record(memproxy.EventStop, "stopped"); return nil })
	return nil
}

// observe reports a listener's memory in use, and its refused connections and requests.
func (s *App) observe(l *listener) error {
	stop, err := s.telemetry.Instruments().ObserveSource(func(observe signal.Observe) {
		var held, refusedRequests int64
		refused, evicted := l.limited.TurnedAway()
		if l.refused != nil {
			refused += l.refused()
		}
		if l.inFlight != nil {
			held, refusedRequests = l.inFlight.UsedBytes(), l.inFlight.Refused()
		}
		observe(signal.MetricConnections, refused, l.name, signal.ResultRefused)
		observe(signal.MetricConnections, evicted, l.name, signal.ResultEvicted)
		observe(signal.MetricInFlight, held, l.name)
		observe(signal.MetricInFlightRefused, refusedRequests, l.name)
	})
	if err == nil {
		s.group.Own(stageTelemetry, func(context.Context) error { return stop() })
	}
	return err
}

// Handler returns the handler of a listener, by its name: a backend's, "admin" or
// "probes". It is nil if no listener has that name.
func (s *App) Handler(listener string) http.Handler {
	for _, l := range s.listeners {
		if l.name == listener {
			return l.handler
		}
	}
	return nil
}

// Once runs one round of a background job, as of now.
func (s *App) Once(ctx context.Context, job string, now time.Time) error {
	return s.jobs.Once(ctx, job, now)
}

// Addr returns the address of a listener, or "".
func (s *App) Addr(name string) string {
	for _, l := range s.listeners {
		if l.name == name && l.ln != nil {
			return l.ln.Addr().String()
		}
	}
	return ""
}

// ready returns the checks of /readyz.
func (s *App) ready() []proxy.Check {
	version, broken := s.rules.current().Version, errors.Join(s.rules.failure(fromPolicies), s.rules.failure(fromPack))
	rules := proxy.Check{Name: "rules", OK: true, Degraded: broken != nil, Detail: "version " + version}
	if broken != nil {
		rules.Detail = "version " + version + " stays in force; the newest edit is broken: " + broken.Error()
	}
	checks := append([]proxy.Check{rules}, s.stores.checks()...)
	if len(s.unsafe) > 0 {
		checks = append(checks, proxy.Check{Name: "unsafe", OK: true, Degraded: true, Detail: "production is weakened by " + strings.Join(s.unsafe, ", ")})
	}
	if open := s.rules.now.Load().cfg.AnonymousAccess(); open != "" {
		checks = append(checks, proxy.Check{Name: "identity", OK: true, Detail: open})
	}
	checks = append(checks, s.edits.check())
	if s.rules.follower != nil {
		checks = append(checks, s.fleet.ready())
	}
	return checks
}

// Envoy configures the listener of the external processor. It is set by flags, because it
// belongs to the wiring of one pod, as Envoy's bootstrap does.
type Envoy struct {
	Listen              string // host:port, or unix:PATH
	Cert, Key, ClientCA string // PEM files
	Authorize           bool   // also serve ext_authz, which can only decide on requests
	UnfilteredReads     bool   // let ext_authz admit reads although it cannot filter their answers
	// Grace is how long the health check reports a stop before connections close.
	Grace time.Duration
}

// Check refuses a listener that unauthenticated peers could reach, because the processor
// trusts what its peer says about callers.
func (f *Envoy) Check() error {
	if (f.Cert == "") != (f.Key == "") || f.ClientCA != "" && f.Cert == "" {
		return errors.New("--cert, --key and --client-ca must be given together")
	}
	if f.UnfilteredReads && !f.Authorize {
		return errors.New("--authz-unfiltered-reads needs --authz")
	}
	if !f.isOpen() {
		return nil
	}
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("--listen is not a loopback address or a unix socket, so it needs --cert, --key and --client-ca: every process that can connect could claim to be any caller")
}

// isOpen reports whether any process on the machine can connect to the processor.
func (f *Envoy) isOpen() bool { return f.ClientCA == "" && !strings.HasPrefix(f.Listen, "unix:") }

// listenExtproc serves the external processor. Its listener is none of s.listeners, which are
// complete when the process is built.
func (s *App) listenExtproc(f Envoy) (*listener, error) {
	p, err := s.processor(f.UnfilteredReads)
	if err != nil {
		return nil, err
	}
	opt := extproc.ServerOptions{Processor: p, Authorize: f.Authorize, Grace: f.Grace, Log: s.log}
	if f.Cert != "" {
		if opt.TLS, err = listenTLS(config.TLS{Cert: f.Cert, Key: f.Key, ClientCA: f.ClientCA}, s.log); err != nil {
			return nil, fmt.Errorf("extproc: %w", err)
		}
		if f.ClientCA != "" {
			opt.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	var ln net.Listener
	if socket, ok := strings.CutPrefix(f.Listen, "unix:"); ok {
		if err = removeSocket(socket); err == nil {
			ln, err = listenSocket(socket)
		}
	} else {
		ln, err = net.Listen("tcp", f.Listen)
	}
	if err != nil {
		return nil, fmt.Errorf("extproc: %w", err)
	}
	l := &listener{name: "extproc", addr: f.Listen, ln: ln, limited: extproc.Limit(ln), refused: p.Refused}
	stop, failed := extproc.Serve(l.limited, opt)
	s.group.Serve(stageListeners, l.name, stop, failed)
	return l, s.observe(l)
}

// removeSocket removes the socket that a killed process left.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	if isListening(path) {
		return fmt.Errorf("another process listens on %s", path)
	}
	return os.Remove(path)
}

// processor builds the Envoy listener on the same gate as the HTTP listeners. It shares their
// limits of memory, and the senders of memproxy's own requests, which their proxies close.
func (s *App) processor(unfilteredReads bool) (*extproc.Processor, error) {
	opt := extproc.Options{
		Runtime: frontend.Runtime{Tracer: s.telemetry.Tracer(), Propagator: s.telemetry.Propagator(), Log: s.log},
		Gate:    s.gate, UnfilteredReads: unfilteredReads,
	}
	for _, p := range s.proxies {
		opt.Backends = append(opt.Backends, p.Backend())
	}
	p, err := extproc.New(opt)
	if err == nil {
		s.group.Own(stageProxies, p.Close)
	}
	return p, err
}
