package command

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
)

// check returns a command that validates a configuration, its policies and its files
// without opening the state, and shows what would prevent it from running on this
// machine. With show it prints the configuration instead, which can be read as a file.
func (in *Invocation) check(use, short, example string, show bool) *cobra.Command {
	print, controls := show, false
	c := configCommand(in, required(), use, short, example, func(ctx context.Context, file string, cfg *config.Config) error {
		found, err := app.Check(ctx, cfg, in.Getenv)
		if err != nil {
			return err
		}
		for _, w := range found.Warnings {
			fmt.Fprintln(in.Stderr, "warning:", w)
		}
		for _, name := range found.Unsafe {
			fmt.Fprintln(in.Stderr, "warning:", name, "weakens production, and is allowed to by", config.UnsafeEnv)
		}
		if print {
			b, err := yaml.Marshal(cfg)
			if err != nil {
				return err
			}
			fmt.Fprint(in.Stdout, string(b))
		}
		if show {
			return nil
		}
		found.Print(in.Stdout, controls)
		fmt.Fprintf(in.Stdout, "%s is valid: profile %s, backends: %d, rules %s\n", file, cfg.Profile, len(cfg.Backends), found.Version)
		for _, w := range found.MachineProblems {
			fmt.Fprintln(in.Stdout, "on this machine:", w)
		}
		fmt.Fprintf(in.Stdout, "held writes are reviewed by %s\n", found.Reviewers)
		if found.NoOperator != nil {
			fmt.Fprintf(in.Stdout, "warning: reviews need a token: the local operator's socket cannot be opened: %v\n", found.NoOperator)
		}
		return nil
	})
	if !show {
		c.Flags().BoolVar(&print, "print", false, "print the configuration with all defaults, secrets redacted")
		c.Flags().BoolVar(&controls, "controls", false, "list every control and policy, and not only what the file sets")
	}
	return c
}

// dirCommand returns a leaf that writes into a directory.
func (in *Invocation) dirCommand(use, short, example, about string, run func(dir string) error) *cobra.Command {
	var out string
	c := cli.Leaf(use, short, example, func(context.Context) error { return run(out) })
	c.Flags().StringVar(&out, "out", "", about)
	return cli.RequireFlags(c, "out")
}

// keygen returns the command that makes the keys that serve would make at its first
// start, so that they can be stored elsewhere before that.
func (in *Invocation) keygen() *cobra.Command {
	return in.dirCommand("keygen", "make the installation's keys", "memproxy keygen --out keys", "`directory` for the keys", func(dir string) error {
		public, err := app.MakeKeys(dir)
		if err == nil {
			fmt.Fprintf(in.Stdout, "keys are in %s\npublic key of the log  %s (for a file that memproxy audit verify --key reads; another if audit.origin is set)\n", dir, public)
		}
		return err
	})
}

// manual returns the command that writes a manual page for each command, for packagers.
func (in *Invocation) manual() *cobra.Command {
	c := in.dirCommand("manual", "write a manual page for each command", "memproxy manual --out man", "`directory` for the pages", func(dir string) error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		all := in.Commands()
		all.DisableAutoGenTag = true
		// The pages have today's date, or that of $SOURCE_DATE_EPOCH.
		return doc.GenManTree(all, &doc.GenManHeader{Section: "1", Source: "memproxy " + in.Version, Manual: "memproxy"}, dir)
	})
	c.Hidden = true
	return c
}
