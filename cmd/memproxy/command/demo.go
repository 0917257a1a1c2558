package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/demo"
	"github.com/memproxy/memproxy/internal/cli"
)

// demo plays each threat, and fails if one is not as claimed.
func (in *Invocation) demo() *cobra.Command {
	var output *cli.Output
	o := demo.Options{Stdout: in.Stdout, Stderr: in.Stderr, Getenv: in.Getenv, Version: in.Version}
	c := cli.Leaf("demo", "play each threat against a bare backend and through memproxy", "memproxy demo --stay", func(ctx context.Context) int {
		o.Output = *output
		if err := demo.Run(ctx, o); err != nil {
			return in.fail(err)
		}
		return cli.OK
	})
	output = cli.OutputFlag(c.Flags())
	c.Flags().BoolVar(&o.Stay, "stay", false, "keep listening afterwards and print a request to try")
	return c
}
