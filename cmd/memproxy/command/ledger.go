package command

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/review"
)

// ledger returns `memproxy ledger` with its subcommands.
func (in *Invocation) ledger() *cobra.Command {
	var s review.SweepRequest
	sweep := integrityCommand(in, "sweep", "compare the backends' contents with what was written through memproxy", "memproxy ledger sweep --config memproxy.yaml",
		"sweep", &s, &s.Progress, review.Integrity.Sweep, review.SweepReport.Clean)
	storeFlags(sweep, &s.Backend, &s.Reason, &s.Scopes)
	var a review.AcceptRequest
	accept := integrityCommand(in, "accept", "accept a broken chain of versions and continue from its end", `memproxy ledger accept --config memproxy.yaml --tenant acme --reason "restored from a backup"`,
		"acceptChain", &a, new(memproxy.Progress), review.Integrity.Accept, nil)
	accept.Flags().StringVar(&a.Tenant, "tenant", "", "`tenant` of the chain; absent: of an installation without tenants")
	accept.Flags().StringVar(&a.Reason, "reason", "", "`why`; it is recorded")
	return cli.Group("ledger", "compare the backends' contents with what was written through memproxy; accept a broken chain; back up, restore, migrate",
		"memproxy ledger sweep --config memproxy.yaml", sweep, cli.RequireFlags(accept, "reason"), backup(in), restore(in), migrate(in))
}

// seal returns `memproxy audit seal`.
func (in *Invocation) seal() *cobra.Command {
	var q review.SealRequest
	c := integrityCommand(in, "seal", "take over memories that a backend held before memproxy", "memproxy audit seal --config memproxy.yaml --backend mem0 --tenant acme",
		"seal", &q, &q.Progress, review.Integrity.Seal, func(r review.SealReport) bool {
			return r.Whole || len(q.Scopes) > 0 && r.Skipped == 0 && !r.Partial // everything that was asked for is recorded
		})
	storeFlags(c, &q.Backend, &q.Reason, &q.Scopes)
	c.Flags().StringVar(&q.Tenant, "tenant", "", "`tenant` that gets the memories; absent: of an installation without tenants")
	return cli.RequireFlags(c, "backend")
}

// storeFlags adds the options for the backend, the scopes and the reason.
func storeFlags(c *cobra.Command, backend, reason *string, scopes *[]memproxy.Scope) {
	c.Flags().StringVar(backend, "backend", "", "`name` of the backend")
	c.Flags().StringVar(reason, "reason", "asked for on the command line", "`why`; it is recorded")
	scopeFlag(c.Flags(), scopes)
}

// integrityCommand returns a command that runs the operation op of the review API on the
// integrity checker, here or in a running sidecar (see app.RunReviewOp), and prints the
// result. The exit code tells whether the result is well.
func integrityCommand[In any, Out interface{ Print(io.Writer) }](in *Invocation, use, short, example, op string, q *In, progress *memproxy.Progress,
	here func(review.Integrity, context.Context, In) (Out, error), well func(Out) bool,
) *cobra.Command {
	at := app.Installation{Options: in.options("")}
	var tokenFile string
	var output *cli.Output
	c := configCommand(in, optional("configuration `file`; its sidecar need not run"), use, short, example, func(ctx context.Context, _ string, cfg *config.Config) (err error) {
		if at.Token, err = review.Token(tokenFile, in.Getenv); err != nil {
			return err
		}
		meter := output.Meter(in.Stderr, "looked at")
		at.Config, at.Progress, *progress = cfg, meter.Progress(), meter.Progress()
		report, err := app.RunReviewOp(ctx, at, op, *q, here)
		meter.Done()
		if err != nil {
			return err
		}
		return exitUnless(well == nil || well(report), output.Print(in.Stdout, report, report.Print))
	})
	c.Flags().StringVar(&at.Admin, "admin", "", "`address` of the admin listener of the sidecar that runs; absent: the configuration's")
	c.Flags().StringVar(&tokenFile, "token-file", "", "`file` with the reviewer's token; else $"+review.TokenEnv)
	output = cli.OutputFlag(c.Flags())
	return c
}
