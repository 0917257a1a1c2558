package command

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/demo"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/inject/server"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/telemetry"
)

// serve runs memproxy's HTTP listeners until it is stopped.
func (in *Invocation) serve() *cobra.Command {
	return in.configured("serve", "run the sidecar", "memproxy serve --config memproxy.yaml", in.serving(nil))
}

// extproc runs the Envoy face: the external processor and, beside it, the HTTP
// listeners of the configuration, to which Envoy sends what only they can gate.
func (in *Invocation) extproc() *cobra.Command {
	var f app.Envoy
	c := in.configured("extproc", "run the Envoy face, with the HTTP one beside it", "memproxy extproc --config memproxy.yaml --listen unix:/run/memproxy.sock", in.serving(&f))
	fs := c.Flags()
	fs.StringVar(&f.Listen, "listen", "127.0.0.1:9902", "address of the processor: host:port, or unix:PATH")
	fs.StringVar(&f.Cert, "cert", "", "certificate chain of the processor, PEM")
	fs.StringVar(&f.Key, "key", "", "its private key, PEM")
	fs.StringVar(&f.ClientCA, "client-ca", "", "roots of Envoy's client certificate, PEM; it must then have one")
	fs.BoolVar(&f.Authorize, "authz", false, "serve ext_authz as well: decisions only")
	fs.BoolVar(&f.UnfilteredReads, "authz-unfiltered-reads", false, "let ext_authz admit reads, whose answers it cannot filter")
	fs.DurationVar(&f.Grace, "grace", 2*time.Second, "at a stop, how long health says so before connections close")
	return c
}

func (in *Invocation) serving(envoy *app.Envoy) func(context.Context, string, *config.Config) error {
	return func(ctx context.Context, file string, cfg *config.Config) error {
		app.TuneMemory(in.Getenv)
		return app.Serve(ctx, cfg, in.options(file), envoy)
	}
}

// options are what a process takes from its invocation.
func (in *Invocation) options(file string) app.Options {
	return app.Options{File: file, Log: in.Stderr, Getenv: in.Getenv, Version: in.Version}
}

// demo plays each threat, and fails if one is not as claimed.
func (in *Invocation) demo() *cobra.Command {
	var output *cli.Output
	o := demo.Options{Stdout: in.Stdout, Stderr: in.Stderr, Getenv: in.Getenv, Version: in.Version}
	c := in.leaf("demo", "play each threat against a bare backend and through memproxy", "memproxy demo --stay", func(ctx context.Context) error {
		o.Output = *output
		return demo.Run(ctx, o)
	})
	output = cli.OutputFlag(c.Flags())
	c.Flags().BoolVar(&o.Stay, "stay", false, "keep listening afterwards and print a request to try")
	return c
}

// inject runs the admission webhooks that put the sidecar into pods, until it
// is told to stop or a listener fails.
func (in *Invocation) inject() *cobra.Command {
	var path *string
	c := in.leaf("inject", "put the sidecar into pods: Kubernetes admission webhooks", "memproxy inject --config inject.yaml",
		func(ctx context.Context) error {
			cfg, err := inject.LoadConfig(*path)
			if err != nil {
				return err
			}
			log, err := telemetry.NewLogger(in.Stderr, telemetry.LogOptions{Format: "json", Level: slog.LevelInfo})
			if err != nil {
				return err
			}
			return server.Run(ctx, cfg, log)
		})
	path = configFlag(c, "inject.yaml", "configuration `file` of the webhooks, as the chart writes it")
	return c
}
