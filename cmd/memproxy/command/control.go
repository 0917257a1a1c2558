package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/fleet"
	"github.com/memproxy/memproxy/internal/cli"
)

// control runs the fleet's control plane, or one of the commands for who
// releases rules.
func (in *Invocation) control() *cobra.Command {
	var path *string
	c := cli.Leaf("control", "run the fleet's control plane; release rules to it", "memproxy control --config control.yaml",
		func(ctx context.Context) int { return in.controlling(ctx, *path) })
	path = configFlag(c, "control.yaml", "configuration `file`")
	c.AddCommand(in.controlKeygen(), in.controlSign(), in.controlStop(), in.controlStatus(), in.controlDiff())
	return c
}

func (in *Invocation) controlling(ctx context.Context, path string) int {
	cfg, err := config.LoadControlPlane(path, in.Getenv)
	if err != nil {
		return in.fail(err)
	}
	if err := fleet.Run(ctx, cfg, fleet.Options{Log: in.Stderr, Getenv: in.Getenv}); err != nil {
		return in.fail(err)
	}
	return cli.OK
}
