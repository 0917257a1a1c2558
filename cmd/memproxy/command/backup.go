package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
)

func backup(in *Invocation) *cobra.Command {
	return onFile(in, "backup FILE", "copy the ledger to a new file, while a sidecar may run on it", "memproxy ledger backup --config memproxy.yaml ledger-backup.db",
		func(ctx context.Context, cfg *config.Config, file string) error {
			err := app.BackupLedger(ctx, cfg, file)
			if err == nil {
				fmt.Fprintf(in.Stdout, "the ledger was copied to %s; its encrypted contents require the keys in %s/keys\n", file, cfg.State)
			}
			return err
		})
}

func restore(in *Invocation) *cobra.Command {
	var force bool
	var reason string
	c := onFile(in, "restore FILE", "replace the ledger by a backup, while the sidecar is stopped", "memproxy ledger restore --config memproxy.yaml --force ledger-backup.db",
		func(ctx context.Context, cfg *config.Config, file string) error {
			err := app.RestoreLedger(ctx, cfg, in.options(""), file, reason, force)
			if err == nil {
				fmt.Fprintf(in.Stdout, "the ledger was restored from %s\n", file)
			} else if !force && errors.Is(err, fs.ErrExist) {
				err = fmt.Errorf("%w; --force replaces it, and keeps it as ledger.db.replaced", err)
			}
			return err
		})
	c.Flags().BoolVar(&force, "force", false, "replace the existing ledger; it is kept as ledger.db.replaced")
	c.Flags().StringVar(&reason, "reason", "asked for on the command line", "`why`; it is recorded")
	return c
}

// migrate returns `memproxy ledger migrate --check`. It only shows the plan: the
// migration itself happens when a sidecar starts.
func migrate(in *Invocation) *cobra.Command {
	var output *cli.Output
	c := configCommand(in, required(), "migrate", "show whether a start would migrate the ledger; exit 1 if it would", "memproxy ledger migrate --check --config memproxy.yaml",
		func(ctx context.Context, _ string, cfg *config.Config) error {
			p, err := app.PlanMigration(ctx, cfg)
			if err != nil {
				return err
			}
			return exitUnless(p.From == 0 || p.From == p.To, output.Print(in.Stdout, p, func(w io.Writer) {
				switch {
				case p.From == 0:
					fmt.Fprintf(w, "there is no ledger; a start creates one with schema %d\n", p.To)
				case p.From == p.To:
					fmt.Fprintf(w, "the ledger has schema %d, and a start does not migrate it\n", p.To)
				case p.Copy == "":
					fmt.Fprintf(w, "a start migrates the ledger from schema %d to %d, in one transaction; no copy is made of a database: run pg_dump first\n", p.From, p.To)
				default:
					fmt.Fprintf(w, "a start migrates the ledger from schema %d to %d and changes %d rows, after a copy: %s\n", p.From, p.To, p.Rows, p.Copy)
				}
			}))
		})
	c.Flags().Bool("check", false, "change nothing")
	output = cli.OutputFlag(c.Flags())
	return cli.RequireFlags(c, "check")
}

// onFile returns a leaf that reads a configuration and takes the name of one file.
func onFile(in *Invocation, use, short, example string, run func(ctx context.Context, cfg *config.Config, file string) error) *cobra.Command {
	var file string
	c := configCommand(in, required(), use, short, example, func(ctx context.Context, _ string, cfg *config.Config) error { return run(ctx, cfg, file) })
	c.Args = func(_ *cobra.Command, words []string) error {
		if len(words) != 1 {
			return errors.New("expected one file")
		}
		file = words[0]
		return nil
	}
	return c
}
