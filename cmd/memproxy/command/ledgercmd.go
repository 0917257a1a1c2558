package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// custodyFlags are what `ledger sweep` and `audit seal` have in common.
type custodyFlags struct {
	conf, backend, admin, tokenFile, tenant, reason string
	output                                          *cli.Output
	scopes                                          scopeList
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
	fs.Var(&f.scopes, "scope", "user=ID, agent=ID or run=ID, of a Mem0 server that does not give its whole store; may be repeated")
}

// ledger is `memproxy ledger sweep` and `memproxy ledger accept`.
func (in *Invocation) ledger() *cobra.Command {
	return cli.Group("ledger", "compare what backends hold with what went through memproxy; accept a broken chain",
		"memproxy ledger sweep --config memproxy.yaml", in.ledgerSweep(), in.ledgerAccept())
}

// ledgerAccept is `memproxy ledger accept`.
func (in *Invocation) ledgerAccept() *cobra.Command {
	var f custodyFlags
	c := cli.Leaf("accept", "go on with a chain of versions that is broken", `memproxy ledger accept --config memproxy.yaml --tenant acme --reason "restored from a backup"`,
		func(ctx context.Context) int { return in.accepting(ctx, f) })
	f.who(c.Flags())
	c.Flags().StringVar(&f.tenant, "tenant", "", "whose chain; absent: of the one `tenant` of an installation without tenants")
	c.Flags().StringVar(&f.reason, "reason", "", "`why`; it is recorded")
	return cli.Needs(c, "reason")
}

func (in *Invocation) accepting(ctx context.Context, f custodyFlags) int {
	var report review.AcceptReport
	err := in.inCustody(ctx, &f, func(ctx context.Context, c review.Custodian) (err error) {
		report, err = c.Accept(ctx, review.AcceptRequest{Tenant: f.tenant, Reason: f.reason})
		return err
	})
	return in.report(f.output, report, report.Print, err)
}

func (in *Invocation) ledgerSweep() *cobra.Command {
	var f custodyFlags
	c := cli.Leaf("sweep", "compare what backends hold with what went through memproxy", "memproxy ledger sweep --config memproxy.yaml",
		func(ctx context.Context) int { return in.comparing(ctx, f) })
	f.register(c.Flags())
	return c
}

func (in *Invocation) comparing(ctx context.Context, f custodyFlags) int {
	q := review.SweepRequest{Backend: f.backend, Scopes: f.scopes, Reason: f.reason}
	var report review.SweepReport
	err := in.inCustody(ctx, &f, func(ctx context.Context, c review.Custodian) (err error) {
		report, err = c.Sweep(ctx, q)
		return err
	})
	if code := in.report(f.output, report, report.Print, err); code != cli.OK {
		return code
	}
	if report.Findings() > 0 {
		return cli.Failed
	}
	return cli.OK
}

// seal is `memproxy audit seal`.
func (in *Invocation) seal() *cobra.Command {
	var f custodyFlags
	c := cli.Leaf("seal", "take over what a backend held before memproxy", "memproxy audit seal --config memproxy.yaml --backend mem0 --tenant acme",
		func(ctx context.Context) int { return in.sealing(ctx, f) })
	f.register(c.Flags())
	c.Flags().StringVar(&f.tenant, "tenant", "", "whose the memories are from now on; absent: of the one `tenant` of an installation without tenants")
	return cli.Needs(c, "backend")
}

func (in *Invocation) sealing(ctx context.Context, f custodyFlags) int {
	var report review.SealReport
	err := in.inCustody(ctx, &f, func(ctx context.Context, c review.Custodian) (err error) {
		report, err = c.Seal(ctx, review.SealRequest{Backend: f.backend, Tenant: f.tenant, Scopes: f.scopes, Reason: f.reason})
		return err
	})
	return in.report(f.output, report, report.Print, err)
}

func (in *Invocation) report(output *cli.Output, report any, print func(io.Writer), err error) int {
	if err == nil {
		err = output.Print(in.Stdout, report, print)
	}
	if err != nil {
		return in.fail(err)
	}
	return cli.OK
}

// inCustody runs f with the custodian of the sidecar that runs, if it can be
// asked, else with one that opens the state itself. The log and the ledger
// have one writer: a state that a sidecar has open is not touched.
func (in *Invocation) inCustody(ctx context.Context, f *custodyFlags, run func(context.Context, review.Custodian) error) error {
	token := in.Getenv(review.TokenEnv)
	if f.tokenFile != "" {
		b, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return err
		}
		token = string(b)
	}
	token = strings.TrimSpace(token)
	if f.conf == "" {
		if token == "" {
			return errors.New("give --config, or --admin with a reviewer's token in --token-file or $" + review.TokenEnv)
		}
		client, err := review.NewClient(review.ClientOptions{URL: cmp.Or(f.admin, "http://127.0.0.1:9901"), Token: token})
		if err != nil {
			return err
		}
		return run(ctx, client)
	}
	cfg, err := config.Load(f.conf, in.Getenv)
	if err != nil {
		return err
	}
	if f.admin == "" {
		c, done, err := app.OpenCustody(ctx, cfg, in.options(""))
		switch {
		case err == nil:
			defer func() {
				stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
				defer cancel()
				if err := done(stop); err != nil {
					fmt.Fprintln(in.Stderr, "memproxy:", err)
				}
			}()
			return errors.Join(run(ctx, c), c.Anchor(ctx))
		case !errors.Is(err, audit.ErrLocked):
			return err
		case token == "":
			return errors.New("a sidecar runs on this state: ask it, with a reviewer's token in --token-file or $" + review.TokenEnv)
		}
		if _, _, err := net.SplitHostPort(cfg.Admin.Listen); err != nil {
			return errors.New("a sidecar runs on this state: give its --admin address")
		}
		f.admin = "http://" + cfg.Admin.Listen
	}
	client, err := review.NewClient(review.ClientOptions{URL: f.admin, Token: token})
	if err != nil {
		return err
	}
	return run(ctx, client)
}
