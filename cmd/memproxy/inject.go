package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/telemetry"
)

// inject runs the admission webhooks that put the sidecar into pods, until it
// is told to stop or a listener fails.
func (a *app) inject() *cobra.Command {
	var path *string
	c := cli.Leaf("inject", "put the sidecar into pods: Kubernetes admission webhooks", "memproxy inject --config inject.yaml",
		func(ctx context.Context) int { return a.injecting(ctx, *path) })
	path = configFlag(c, "inject.yaml", "configuration `file` of the webhooks, as the chart writes it")
	return c
}

func (a *app) injecting(ctx context.Context, path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return a.fail(err)
	}
	cfg, err := inject.ParseConfig(text)
	if err != nil {
		return a.fail(fmt.Errorf("%s: %w", path, err))
	}
	log, err := telemetry.NewLogger(a.Stderr, telemetry.LogOptions{Format: "json", Level: slog.LevelInfo})
	if err != nil {
		return a.fail(err)
	}
	if err := runInjector(ctx, cfg, log); err != nil {
		return a.fail(err)
	}
	return cli.OK
}

func runInjector(ctx context.Context, cfg *inject.Config, log *slog.Logger) error {
	metrics := prometheus.NewRegistry()
	turned := &turnedAway{}
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
		return serveUntil(ctx, turned.of("webhooks", face.Bound(hooks, face.ListenOptions{})), proxy.ServerOptions{Handler: injector.Handler(log), TLS: cert.TLS(), BodyTimeout: inject.ReviewTime, Log: log})
	})
	group.Go(func() error {
		numbers := proxy.Hosts{}.Guard(promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
		return serveUntil(ctx, turned.of("admin", face.Bound(admin, face.ListenOptions{})), proxy.ServerOptions{Handler: inject.AdminHandler(cert.Ready, numbers), Log: log})
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
