package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc"
)

// Envoy says how Envoy reaches the processor. It is no part of the
// configuration because it belongs to one pod's wiring, as Envoy's own bootstrap
// does.
type Envoy struct {
	Listen              string // host:port, or unix:PATH
	Cert, Key, ClientCA string // files, PEM
	Authorize           bool   // serve ext_authz as well: decisions only
	UnfilteredReads     bool   // let ext_authz admit reads, whose answers it cannot filter
	// Grace is at a stop how long health says so before connections close.
	Grace time.Duration
}

// check refuses a listener that strangers could reach: it is believed about
// who callers are.
func (f *Envoy) check() error {
	if (f.Cert == "") != (f.Key == "") || f.ClientCA != "" && f.Cert == "" {
		return errors.New("extproc: --cert, --key and --client-ca go together")
	}
	if f.ClientCA != "" || strings.HasPrefix(f.Listen, "unix:") {
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
