package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/internal/cli"
)

// extprocFlags say how Envoy reaches the processor. They are flags and not
// configuration because they belong to one pod's wiring, as Envoy's own
// bootstrap does.
type extprocFlags struct {
	listen              string
	cert, key, clientCA string
	authorize, unread   bool
	grace               time.Duration
}

// extproc runs the Envoy face: the external processor and, beside it, the HTTP
// listeners of the configuration, to which Envoy sends what only they can gate.
func (a *app) extproc() *cobra.Command {
	var path *string
	var f extprocFlags
	c := cli.Leaf("extproc", "run the Envoy face, with the HTTP one beside it", "memproxy extproc --config memproxy.yaml --listen unix:/run/memproxy.sock",
		func(ctx context.Context) int { return a.processing(ctx, *path, f) })
	path = configFlag(c, "memproxy.yaml", "configuration `file`")
	fs := c.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:9902", "address of the processor: host:port, or unix:PATH")
	fs.StringVar(&f.cert, "cert", "", "certificate chain of the processor, PEM")
	fs.StringVar(&f.key, "key", "", "its private key, PEM")
	fs.StringVar(&f.clientCA, "client-ca", "", "roots of Envoy's client certificate, PEM; it must then have one")
	fs.BoolVar(&f.authorize, "authz", false, "serve ext_authz as well: decisions only")
	fs.BoolVar(&f.unread, "authz-unfiltered-reads", false, "let ext_authz admit reads, whose answers it cannot filter")
	fs.DurationVar(&f.grace, "grace", 2*time.Second, "at a stop, how long health says so before connections close")
	return c
}

func (a *app) processing(ctx context.Context, path string, f extprocFlags) int {
	if err := f.check(); err != nil {
		return a.fail(err)
	}
	cfg, err := config.Load(path, a.Getenv)
	if err != nil {
		return a.fail(err)
	}
	a.tuneMemory()
	car, err := a.assemble(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return a.fail(err)
	}
	if err := car.listenBoth(f); err != nil {
		_ = car.close(context.Background()) // the listener's error is the one to show
		return a.fail(err)
	}
	return a.untilStopped(ctx, car)
}

// untilStopped serves until it is told to stop or a listener fails.
func (a *app) untilStopped(ctx context.Context, car *sidecar) int {
	car.record(memproxy.EventStart, "version "+a.Version+", profile "+car.cfg.Profile+", behind Envoy")
	for _, l := range car.listeners {
		car.log.Info("listening", "name", l.name, "address", l.ln.Addr().String())
	}
	for _, w := range car.cfg.Warnings() {
		car.log.Warn(w)
	}
	code := cli.OK
	select {
	case <-ctx.Done():
	case err := <-car.anyFailed():
		car.log.Error("a listener failed", "error", err)
		code = cli.Failed
	}
	car.log.Info("stopping")
	stop, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := car.close(stop); err != nil {
		return a.fail(err)
	}
	return code
}

// check refuses a listener that strangers could reach: it is believed about
// who callers are.
func (f *extprocFlags) check() error {
	if (f.cert == "") != (f.key == "") || f.clientCA != "" && f.cert == "" {
		return errors.New("extproc: -cert, -key and -client-ca go together")
	}
	if f.clientCA != "" || strings.HasPrefix(f.listen, "unix:") {
		return nil
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return fmt.Errorf("extproc: -listen: %w", err)
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("extproc: -listen is not a loopback address or a unix socket, so it needs -cert, -key and -client-ca: whoever reaches it is believed about who callers are")
}

func (s *sidecar) listenBoth(f extprocFlags) error {
	if err := s.listen(); err != nil {
		return err
	}
	return s.listenExtproc(f)
}

// listenExtproc serves the processor.
func (s *sidecar) listenExtproc(f extprocFlags) error {
	p, err := s.processor(f.unread)
	if err != nil {
		return err
	}
	opt := extproc.ServerOptions{Processor: p, Authorize: f.authorize, Grace: f.grace, Log: s.log}
	if f.cert != "" {
		if opt.TLS, err = listenTLS(config.TLS{Cert: f.cert, Key: f.key, ClientCA: f.clientCA}); err != nil {
			return fmt.Errorf("extproc: %w", err)
		}
		if f.clientCA != "" {
			opt.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	network, addr := "tcp", f.listen
	if socket, ok := strings.CutPrefix(f.listen, "unix:"); ok {
		network, addr = "unix", socket
		if err := removeSocket(socket); err != nil {
			return fmt.Errorf("extproc: %w", err)
		}
	}
	ln, err := net.Listen(network, addr)
	if err != nil {
		return fmt.Errorf("extproc: %w", err)
	}
	l := &listener{name: "extproc", addr: f.listen, ln: ln, bounded: extproc.Bound(ln), refused: p.Refused}
	l.stop, l.failed = extproc.Serve(l.bounded, opt)
	s.onStop(stageListeners, l.stop)
	s.bounded.Lock()
	defer s.bounded.Unlock()
	s.listeners = append([]*listener{l}, s.listeners...) // the first to close
	return nil
}

// removeSocket removes what a process that was killed left behind.
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
