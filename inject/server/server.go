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

	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/proxy"
)

// Run serves the webhooks until ctx ends or a listener fails.
func Run(ctx context.Context, cfg *inject.Config, log *slog.Logger) error {
	metrics := prometheus.NewRegistry()
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
	g := group.New(ctx, group.Options{Stages: []group.Stage{{Name: "listeners", Drain: true}, {Name: "loops", Time: time.Second}}, Loops: 1, Drain: inject.ReviewTime, Log: log})
	stop, failed := proxy.Serve(face.CountTurnedAway(metrics, "webhooks", face.Bound(hooks, face.ListenOptions{})), proxy.ServerOptions{Handler: injector.Handler(log), TLS: cert.TLS(), BodyTimeout: inject.ReviewTime, Log: log})
	g.Serve(0, "webhooks", stop, failed)
	numbers := proxy.Hosts{}.Guard(promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	stop, failed = proxy.Serve(face.CountTurnedAway(metrics, "admin", face.Bound(admin, face.ListenOptions{})), proxy.ServerOptions{Handler: inject.AdminHandler(cert.Ready, numbers), Log: log})
	g.Serve(0, "admin", stop, failed)
	return g.Run(ctx)
}
