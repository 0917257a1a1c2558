package command

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/review"
)

// custodyFlags are what `ledger sweep` and `audit seal` have in common.
type custodyFlags struct {
	conf, backend, admin, tokenFile, tenant, reason string
	output                                          *cli.Output
	scopes                                          []memproxy.Scope
}

// who are the options that say which sidecar does it.
func (f *custodyFlags) who(fs *pflag.FlagSet) {
	fs.StringVar(&f.conf, "config", "", "configuration `file`; its sidecar need not run")
	fs.StringVar(&f.admin, "admin", "", "`address` of the admin listener of the sidecar that runs; absent: the configuration's")
	fs.StringVar(&f.tokenFile, "token-file", "", "`file` with the reviewer's token; else $"+review.TokenEnv)
	f.output = cli.OutputFlag(fs)
}

func (f *custodyFlags) register(fs *pflag.FlagSet) {
	f.who(fs)
	fs.StringVar(&f.backend, "backend", "", "`name` of the backend")
	fs.StringVar(&f.reason, "reason", "asked for on the command line", "`why`; it is recorded")
	scopeFlag(fs, &f.scopes)
}

// ledger is `memproxy ledger sweep` and `memproxy ledger accept`.
func (in *Invocation) ledger() *cobra.Command {
	return cli.Group("ledger", "compare what backends hold with what went through memproxy; accept a broken chain",
		"memproxy ledger sweep --config memproxy.yaml", in.ledgerSweep(), in.ledgerAccept())
}

// ledgerAccept is `memproxy ledger accept`.
func (in *Invocation) ledgerAccept() *cobra.Command {
	var f custodyFlags
	c := in.leaf("accept", "go on with a chain of versions that is broken", `memproxy ledger accept --config memproxy.yaml --tenant acme --reason "restored from a backup"`,
		func(ctx context.Context) error {
			_, err := attend(ctx, in, &f, "acceptChain", review.AcceptRequest{Tenant: f.tenant, Reason: f.reason}, review.Custodian.Accept)
			return err
		})
	f.who(c.Flags())
	c.Flags().StringVar(&f.tenant, "tenant", "", "whose chain; absent: of the one `tenant` of an installation without tenants")
	c.Flags().StringVar(&f.reason, "reason", "", "`why`; it is recorded")
	return cli.Needs(c, "reason")
}

func (in *Invocation) ledgerSweep() *cobra.Command {
	var f custodyFlags
	c := in.leaf("sweep", "compare what backends hold with what went through memproxy", "memproxy ledger sweep --config memproxy.yaml",
		func(ctx context.Context) error {
			report, err := attend(ctx, in, &f, "sweep", review.SweepRequest{Backend: f.backend, Scopes: f.scopes, Reason: f.reason}, review.Custodian.Sweep)
			return yes(report.Findings() == 0, err)
		})
	f.register(c.Flags())
	return c
}

// seal is `memproxy audit seal`.
func (in *Invocation) seal() *cobra.Command {
	var f custodyFlags
	c := in.leaf("seal", "take over what a backend held before memproxy", "memproxy audit seal --config memproxy.yaml --backend mem0 --tenant acme",
		func(ctx context.Context) error {
			_, err := attend(ctx, in, &f, "seal", review.SealRequest{Backend: f.backend, Tenant: f.tenant, Scopes: f.scopes, Reason: f.reason}, review.Custodian.Seal)
			return err
		})
	f.register(c.Flags())
	c.Flags().StringVar(&f.tenant, "tenant", "", "whose the memories are from now on; absent: of the one `tenant` of an installation without tenants")
	return cli.Needs(c, "backend")
}

// attend has a custodian do what the API calls op, and prints what came of it.
func attend[In any, Out interface{ Print(io.Writer) }](ctx context.Context, in *Invocation, f *custodyFlags, op string, q In, here func(review.Custodian, context.Context, In) (Out, error)) (report Out, err error) {
	at := app.Attended{Admin: f.admin, Options: in.options("")}
	if at.Token, err = review.Token(f.tokenFile, in.Getenv); err != nil {
		return report, err
	}
	if f.conf != "" {
		if at.Config, err = config.Load(f.conf, in.Getenv); err != nil {
			return report, err
		}
	}
	if report, err = app.Attend(ctx, at, op, q, here); err != nil {
		return report, err
	}
	return report, f.output.Print(in.Stdout, report, report.Print)
}
