package command

import (
	"context"
	"errors"
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

// source is the default path of a command's configuration, the description of its option,
// and the function that reads it.
type source[C any] struct {
	otherwise, about string
	load             func(path string, getenv func(string) string) (C, error)
}

// required is the source of a sidecar's configuration.
func required() source[*config.Config] {
	return source[*config.Config]{"memproxy.yaml", "configuration `file`", config.Load}
}

// optional is the source of a sidecar's configuration that may be absent (nil).
func optional(about string) source[*config.Config] {
	return source[*config.Config]{"", about, func(path string, getenv func(string) string) (*config.Config, error) {
		if path == "" {
			return nil, nil
		}
		return config.Load(path, getenv)
	}}
}

// configCommand returns a leaf that first reads a configuration from a file.
func configCommand[C any](in *Invocation, from source[C], use, short, example string, run func(ctx context.Context, file string, cfg C) error) *cobra.Command {
	var path *string
	c := cli.Leaf(use, short, example, func(ctx context.Context) error {
		cfg, err := from.load(*path, in.Getenv)
		if err != nil {
			return err
		}
		return run(ctx, *path, cfg)
	})
	path = c.Flags().String("config", from.otherwise, from.about)
	_ = c.MarkFlagFilename("config", "yaml", "yml") // cannot fail: the flag was just defined
	return c
}

// sidecar returns a command that runs memproxy's HTTP listeners, and the Envoy listener
// unless envoy is nil, until it is stopped.
func (in *Invocation) sidecar(use, short, example string, envoy *app.Envoy) *cobra.Command {
	return configCommand(in, required(), use, short, example, func(ctx context.Context, file string, cfg *config.Config) error {
		app.TuneMemory(in.Getenv)
		return app.Serve(ctx, cfg, in.options(file), envoy)
	})
}

// extproc returns the command that runs the Envoy listener: the external processor and
// also the HTTP listeners of the configuration, to which Envoy routes the requests that
// only they can gate.
func (in *Invocation) extproc() *cobra.Command {
	var f app.Envoy
	c := in.sidecar("extproc", "run the Envoy external processor along with the HTTP listeners", "memproxy extproc --config memproxy.yaml --listen unix:/run/memproxy.sock", &f)
	fs := c.Flags()
	fs.StringVar(&f.Listen, "listen", "127.0.0.1:9902", "address of the processor: host:port, or unix:PATH")
	fs.StringVar(&f.Cert, "cert", "", "certificate chain of the processor, PEM")
	fs.StringVar(&f.Key, "key", "", "its private key, PEM")
	fs.StringVar(&f.ClientCA, "client-ca", "", "roots of Envoy's client certificate, PEM; Envoy must then present one")
	fs.BoolVar(&f.Authorize, "authz", false, "serve ext_authz as well: decisions only")
	fs.BoolVar(&f.UnfilteredReads, "authz-unfiltered-reads", false, "let ext_authz admit reads, whose answers it cannot filter")
	fs.DurationVar(&f.Grace, "grace", 2*time.Second, "how long health checks report a stop before connections close")
	c.PreRunE = func(*cobra.Command, []string) error {
		if f.Grace < 0 {
			return errors.New("--grace is negative")
		}
		return f.Check()
	}
	return c
}

// options returns the options of a process that come from its invocation.
func (in *Invocation) options(file string) app.Options {
	return app.Options{File: file, Log: in.Stderr, Getenv: in.Getenv, Version: in.Version}
}

// demo returns the command that plays each threat. It fails if the outcome of one differs
// from what memproxy claims.
func (in *Invocation) demo() *cobra.Command {
	var output *cli.Output
	o := demo.Options{Stdout: in.Stdout, Stderr: in.Stderr, Getenv: in.Getenv, Version: in.Version}
	c := cli.Leaf("demo", "run each attack against a backend, without and with memproxy", "memproxy demo --stay", func(ctx context.Context) error {
		o.Output = *output
		return demo.Run(ctx, o)
	})
	output = cli.OutputFlag(c.Flags())
	c.Flags().BoolVar(&o.KeepRunning, "stay", false, "keep listening afterwards and print a request to try")
	return c
}

// inject returns the command that runs the admission webhooks, which inject the sidecar
// into pods, until it is stopped or a listener fails.
func (in *Invocation) inject() *cobra.Command {
	from := source[*inject.Config]{"inject.yaml", "configuration `file` of the webhooks, as the chart writes it", func(path string, _ func(string) string) (*inject.Config, error) { return inject.LoadConfig(path) }}
	return configCommand(in, from, "inject", "put the sidecar into pods: Kubernetes admission webhooks", "memproxy inject --config inject.yaml",
		func(ctx context.Context, _ string, cfg *inject.Config) error {
			return server.Run(ctx, cfg, telemetry.NewLogger(in.Stderr, "json", slog.LevelInfo))
		})
}
