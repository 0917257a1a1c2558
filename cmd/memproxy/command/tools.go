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

// configuration prints what is in force.
func (in *Invocation) configuration() *cobra.Command {
	const example = "memproxy config show --config memproxy.yaml"
	show := in.configured("show", "print the configuration with all defaults, secrets redacted", example, in.checking(new(true)))
	return cli.Group("config", "what is in force", example, show)
}

// check validates a configuration, its policies and its files, without opening
// state, and says what would keep it from running here.
func (in *Invocation) check() *cobra.Command {
	var print bool
	c := in.configured("check", "validate configuration, schema and policies", "memproxy check --config memproxy.yaml", in.checking(&print))
	c.Flags().BoolVar(&print, "print", false, "print the configuration with all defaults, secrets redacted")
	return c
}

func (in *Invocation) checking(print *bool) func(context.Context, string, *config.Config) error {
	return func(ctx context.Context, file string, cfg *config.Config) error {
		found, err := app.Check(ctx, cfg, in.Getenv)
		if err != nil {
			return err
		}
		for _, w := range cfg.Warnings() {
			fmt.Fprintln(in.Stderr, "warning:", w)
		}
		for _, name := range found.Unsafe {
			fmt.Fprintln(in.Stderr, "warning:", name, "weakens production, and is allowed to by", config.UnsafeEnv)
		}
		if *print {
			b, err := yaml.Marshal(cfg)
			if err != nil {
				return err
			}
			fmt.Fprint(in.Stdout, string(b))
		}
		found.Print(in.Stdout)
		fmt.Fprintf(in.Stdout, "%s is valid: profile %s, %d backend(s), rules %s\n", file, cfg.Profile, len(cfg.Backends), found.Version)
		for _, w := range found.Here {
			fmt.Fprintln(in.Stdout, "on this machine:", w)
		}
		fmt.Fprintf(in.Stdout, "held writes are reviewed by %s\n", found.Reviewers)
		if found.NoOperator != nil {
			fmt.Fprintf(in.Stdout, "warning: the operator of this machine cannot review without a token: %v\n", found.NoOperator)
		}
		return nil
	}
}

// keygen makes the keys that serve would make at its first start, so that they
// can be kept elsewhere before.
func (in *Invocation) keygen() *cobra.Command {
	var out string
	c := in.leaf("keygen", "make the installation's keys", "memproxy keygen --out keys", func(context.Context) error {
		public, origin, err := app.MakeKeys(out)
		if err == nil {
			fmt.Fprintf(in.Stdout, "keys are in %s; give %s to whoever verifies the log (origin %s)\n", out, public, origin)
		}
		return err
	})
	c.Flags().StringVar(&out, "out", "", "`directory` for the keys")
	return cli.Needs(c, "out")
}

// versionCommand prints what --version prints.
func (in *Invocation) versionCommand() *cobra.Command {
	return in.leaf("version", "print version, commit, Go version and platform", "memproxy version", func(context.Context) error {
		fmt.Fprintln(in.Stdout, in.about())
		return nil
	})
}

// manual writes a manual page for each command, for who packages memproxy.
func (in *Invocation) manual() *cobra.Command {
	var dir string
	c := in.leaf("manual", "write a manual page for each command", "memproxy manual --out man", func(context.Context) error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		all := in.commandLine()
		all.DisableAutoGenTag = true
		// They are dated today, or by $SOURCE_DATE_EPOCH.
		return doc.GenManTree(all, &doc.GenManHeader{Section: "1", Source: "memproxy " + in.Version, Manual: "memproxy"}, dir)
	})
	c.Hidden = true
	c.Flags().StringVar(&dir, "out", "", "`directory` for the pages")
	return cli.Needs(c, "out")
}
