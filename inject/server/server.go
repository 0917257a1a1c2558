// Package server serves the admission webhooks of package inject.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/tlsfile"
	"github.com/memproxy/memproxy/proxy"
)

// Run serves the webhooks until ctx ends or a listener fails.
func Run(ctx context.Context, cfg *inject.Config, log *slog.Logger) error {
	metrics := prometheus.NewRegistry()
	injector, err := inject.New(cfg, metrics)
	if err != nil {
		return err
	}
	cert, err := tlsfile.Open(cfg.TLS.Cert, cfg.TLS.Key, log)
	if err != nil {
		return fmt.Errorf("tls.cert or tls.key: %w", err)
	}
	conf := &tls.Config{GetCertificate: cert.Server, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
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
	g := group.New(ctx, group.Options{Stages: []group.Stage{{Name: "listeners", Drain: true}, {Name: "loops", Time: time.Second}}, Loops: 1, Drain: inject.ReviewTime, Log: log})
	stop, failed := proxy.Serve(frontend.CountTurnedAway(metrics, "webhooks", frontend.Limit(hooks, frontend.ListenOptions{})), proxy.ServerOptions{Handler: injector.Handler(log), TLS: conf, BodyTimeout: inject.ReviewTime, Log: log})
	g.Serve(0, "webhooks", stop, failed)
	stop, failed = proxy.Serve(frontend.CountTurnedAway(metrics, "admin", frontend.Limit(admin, frontend.ListenOptions{})), proxy.ServerOptions{Handler: adminHandler(func() error { return cert.Check(time.Now()) }, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})), Log: log})
	g.Serve(0, "admin", stop, failed)
	return g.Run(ctx)
}

// adminHandler serves probes and metrics. ready returns why the webhooks cannot respond,
// or nil.
func adminHandler(ready func() error, metrics http.Handler) http.Handler {
	return proxy.NewAdmin(proxy.AdminOptions{Metrics: metrics, Ready: func() []proxy.Check {
		c := proxy.Check{Name: "certificate", OK: true}
		if err := ready(); err != nil {
			c.OK, c.Detail = false, err.Error()
		}
		return []proxy.Check{c}
	}})
}
