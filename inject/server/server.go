// Package server serves the admission webhooks of package inject.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/proxy"
)

// Run serves the webhooks until ctx ends or a listener fails.
func Run(ctx context.Context, cfg *inject.Config, log *slog.Logger) error {
	metrics := prometheus.NewRegistry()
	turned := &face.TurnedAway{}
	metrics.MustRegister(turned)
	opt := cfg.Options()
	opt.Metrics = metrics
	injector, err := inject.New(opt)
	if err != nil {
		return err
	}
	cert, err := inject.LoadCertificate(cfg.TLS.Cert, cfg.TLS.Key, time.Now)
	if err != nil {
		return err
	}
	hooks, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", cfg.Admin)
	if err != nil {
		return errors.Join(err, hooks.Close())
	}
	log.Info("listening", "name", "webhooks", "address", hooks.Addr().String())
	log.Info("listening", "name", "admin", "address", admin.Addr().String())
	// Whichever ends first ends the other.
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serveUntil(ctx, turned.Of("webhooks", face.Bound(hooks, face.ListenOptions{})), proxy.ServerOptions{Handler: injector.Handler(log), TLS: cert.TLS(), BodyTimeout: inject.ReviewTime, Log: log})
	})
	group.Go(func() error {
		numbers := proxy.Hosts{}.Guard(promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
		return serveUntil(ctx, turned.Of("admin", face.Bound(admin, face.ListenOptions{})), proxy.ServerOptions{Handler: inject.AdminHandler(cert.Ready, numbers), Log: log})
	})
	return group.Wait()
}

// serveUntil serves until ctx ends, and lets what is in flight finish.
func serveUntil(ctx context.Context, ln net.Listener, o proxy.ServerOptions) error {
	stop, failed := proxy.Serve(ln, o)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), inject.ReviewTime)
	defer cancel()
	return stop(drain)
}
