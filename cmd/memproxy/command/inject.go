package command

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/inject/server"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/telemetry"
)

// inject runs the admission webhooks that put the sidecar into pods, until it
// is told to stop or a listener fails.
func (in *Invocation) inject() *cobra.Command {
	var path *string
	c := cli.Leaf("inject", "put the sidecar into pods: Kubernetes admission webhooks", "memproxy inject --config inject.yaml",
		func(ctx context.Context) int { return in.injecting(ctx, *path) })
	path = configFlag(c, "inject.yaml", "configuration `file` of the webhooks, as the chart writes it")
	return c
}

func (in *Invocation) injecting(ctx context.Context, path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return in.fail(err)
	}
	cfg, err := inject.ParseConfig(text)
	if err != nil {
		return in.fail(fmt.Errorf("%s: %w", path, err))
	}
	log, err := telemetry.NewLogger(in.Stderr, telemetry.LogOptions{Format: "json", Level: slog.LevelInfo})
	if err != nil {
		return in.fail(err)
	}
	if err := server.Run(ctx, cfg, log); err != nil {
		return in.fail(err)
	}
	return cli.OK
}
