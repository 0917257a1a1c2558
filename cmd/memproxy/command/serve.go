package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
)

// serve runs memproxy's HTTP listeners until it is stopped.
func (in *Invocation) serve() *cobra.Command {
	var path *string
	c := cli.Leaf("serve", "run the sidecar", "memproxy serve --config memproxy.yaml", func(ctx context.Context) int { return in.serving(ctx, *path, nil) })
	path = configFlag(c, "memproxy.yaml", "configuration `file`")
	return c
}

func (in *Invocation) serving(ctx context.Context, path string, envoy *app.Envoy) int {
	cfg, err := config.Load(path, in.Getenv)
	if err != nil {
		return in.fail(err)
	}
	in.tuneMemory()
	if err := app.Serve(ctx, cfg, in.options(path), envoy); err != nil {
		return in.fail(err)
	}
	return cli.OK
}

// options are what a process takes from its invocation.
func (in *Invocation) options(file string) app.Options {
	return app.Options{File: file, Log: in.Stderr, Getenv: in.Getenv, Version: in.Version}
}
