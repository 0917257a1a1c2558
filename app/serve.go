package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os/signal"
	"runtime/debug"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/upkeep"
)

// Serve runs memproxy until ctx ends or a listener fails: the HTTP listeners of
// the configuration and, unless envoy is nil, the processor for Envoy as well.
func Serve(ctx context.Context, cfg *config.Config, opt Options, envoy *Envoy) error {
	if envoy != nil {
		if err := envoy.Check(); err != nil {
			return err
		}
		cfg.BehindEnvoy(envoy.isOpen())
	}
	// SIGHUP must never end the process, not even while the sidecar starts or stops.
	heard := upkeep.Hangups()
	defer signal.Stop(heard)
	// The sidecar outlives ctx by the drain, in which requests in flight finish.
	s, err := New(context.WithoutCancel(ctx), cfg, opt)
	if err != nil {
		return err
	}
	detail := "version " + s.opt.Version + ", profile " + cfg.Profile
	all := slices.Clip(s.listeners)
	if err = s.Listen(); err == nil && envoy != nil {
		detail += ", behind Envoy"
		var l *listener
		l, err = s.listenExtproc(*envoy)
		all = append(all, l)
	}
	if err != nil {
		_ = s.Close(context.Background()) // the listener's error is the one to report
		return err
	}
	s.record(memproxy.EventStart, detail)
	s.log.Info("started", "version", s.opt.Version, "profile", cfg.Profile, "switched_off", switchedOff(s.rules.now.Load()))
	for _, l := range all {
		s.log.Info("listening", "name", l.name, "address", l.ln.Addr().String())
		warnExpired(s.log, l, time.Now())
	}
	s.edits.warn(cfg)
	for _, b := range cfg.Backends {
		s.group.Go("upstream", func(ctx context.Context) { logReachability(ctx, b, s.opt.within(reachTime), s.log) })
	}
	// Starting leaves tens of megabytes of garbage, which would stay resident until as
	// much again is allocated. Requests are served meanwhile.
	debug.FreeOSMemory()
	return s.group.Run(ctx)
}

// switchedOff lists the settings of the controls that are off, except settings that are
// strictest when off, and the built-in policies that do not decide.
func switchedOff(now *compiledRules) (off []string) {
	for _, set := range now.settings() {
		if set.Status == config.StatusOff && !set.Strictest() {
			off = append(off, set.Path)
		}
	}
	for _, rule := range now.relaxed() {
		off = append(off, "policy "+rule.ID)
	}
	return off
}

// warnExpired logs that a listener's certificate is not valid now. A renewed one is taken
// without a restart, so that this does not prevent the start.
func warnExpired(log *slog.Logger, l *listener, now time.Time) {
	if l.tls == nil {
		return
	}
	c, err := l.tls.GetCertificate(nil)
	if err != nil || c.Leaf == nil || !now.Before(c.Leaf.NotBefore) && !now.After(c.Leaf.NotAfter) {
		return
	}
	log.Warn("the certificate is not valid now, and clients refuse it: replace the files of tls.cert and tls.key", "backend", l.name,
		"from", c.Leaf.NotBefore.UTC().Format(time.RFC3339), "until", c.Leaf.NotAfter.UTC().Format(time.RFC3339))
}

const reachTime = 3 * time.Second // timeout of the test connection to a backend

// logReachability logs whether a backend can be connected to. An unreachable backend
// does not prevent the start.
func logReachability(ctx context.Context, b config.Backend, within time.Duration, log *slog.Logger) {
	u, err := url.Parse(b.Upstream)
	if err != nil {
		return // already validated with the configuration
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = new(net.Dialer)
	if trusted, err := upstreamTLS(b.TLS); err == nil && u.Scheme == "https" {
		dialer = &tls.Dialer{Config: trusted}
	}
	c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), config.PortOf(u)))
	if errors.Is(err, context.Canceled) {
		return // the process is stopping
	}
	if err != nil {
		log.Warn("the backend is unreachable; requests to it are answered 502", "backend", b.Name, "setting", "backends[].upstream", "error", err)
		return
	}
	log.Info("the backend is reachable", "backend", b.Name, "address", c.RemoteAddr().String())
	_ = c.Close() // nothing was sent
}

// hangup logs each SIGHUP.
func hangup(ctx context.Context, log *slog.Logger) {
	heard := upkeep.Hangups()
	defer signal.Stop(heard)
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
			log.Info("SIGHUP: reloading the configuration, policies and packs")
		}
	}
}

const (
	// gcPercent lets the heap grow to five times its live size before a collection. The
	// sidecar keeps little and allocates much, so with the default of 100 it would
	// collect every few milliseconds under load.
	gcPercent = 400
	// memoryLimit is the heap size near which collections become frequent regardless of
	// gcPercent. The resident memory also includes the program, the embedded database's
	// memory outside of the heap, and allocations during a collection; together they stay
	// within 256 MiB. Pages of the ledger's file that readers map are added, which the
	// kernel takes back when memory is short.
	memoryLimit = 168 << 20
)

// TuneMemory sets the garbage collector's parameters for a small heap. GOGC and
// GOMEMLIMIT take precedence.
func TuneMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
