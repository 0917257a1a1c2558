package command

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// configuration prints what is in force.
func (in *Invocation) configuration() *cobra.Command {
	var path *string
	show := cli.Leaf("show", "print the configuration with all defaults, secrets redacted", "memproxy config show --config memproxy.yaml",
		func(ctx context.Context) int { return in.checking(ctx, *path, true) })
	path = configFlag(show, "memproxy.yaml", "configuration `file`")
	return cli.Group("config", "what is in force", "memproxy config show --config memproxy.yaml", show)
}

// check validates a configuration, its policies and its files, without opening
// state, and says what would keep it from running here.
func (in *Invocation) check() *cobra.Command {
	var path *string
	var print bool
	c := cli.Leaf("check", "validate configuration, schema and policies", "memproxy check --config memproxy.yaml",
		func(ctx context.Context) int { return in.checking(ctx, *path, print) })
	path = configFlag(c, "memproxy.yaml", "configuration `file`")
	c.Flags().BoolVar(&print, "print", false, "print the configuration with all defaults, secrets redacted")
	return c
}

func (in *Invocation) checking(ctx context.Context, path string, print bool) int {
	cfg, err := config.Load(path, in.Getenv)
	if err != nil {
		return in.fail(err)
	}
	found, err := app.Check(ctx, cfg, in.Getenv)
	if err != nil {
		return in.fail(err)
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintln(in.Stderr, "warning:", w)
	}
	for _, name := range found.Unsafe {
		fmt.Fprintln(in.Stderr, "warning:", name, "weakens production, and is allowed to by", config.UnsafeEnv)
	}
	if print {
		b, err := yaml.Marshal(cfg)
		if err != nil {
			return in.fail(err)
		}
		fmt.Fprint(in.Stdout, string(b))
	}
	found.Print(in.Stdout)
	fmt.Fprintf(in.Stdout, "%s is valid: profile %s, %d backend(s), rules %s\n", path, cfg.Profile, len(cfg.Backends), found.Version)
	for _, w := range found.Here {
		fmt.Fprintln(in.Stdout, "on this machine:", w)
	}
	fmt.Fprintf(in.Stdout, "held writes are reviewed by %s\n", found.Reviewers)
	if found.NoOperator != nil {
		fmt.Fprintf(in.Stdout, "warning: the operator of this machine cannot review without a token: %v\n", found.NoOperator)
	}
	return cli.OK
}

// keygen makes the keys that serve would make at its first start, so that they
// can be kept elsewhere before.
func (in *Invocation) keygen() *cobra.Command {
	var out string
	c := cli.Leaf("keygen", "make the installation's keys", "memproxy keygen --out keys", func(context.Context) int { return in.makeKeys(out) })
	c.Flags().StringVar(&out, "out", "", "`directory` for the keys")
	return cli.Needs(c, "out")
}

func (in *Invocation) makeKeys(out string) int {
	if err := os.MkdirAll(out, 0o700); err != nil {
		return in.fail(err)
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
		return in.fail(fmt.Errorf("%s is not empty; keys are never overwritten", out))
	}
	key, err := audit.LoadOrCreateKey(out)
	if err != nil {
		return in.fail(err)
	}
	if _, err := ledger.LoadOrCreateKey(out, rand.Reader); err != nil {
		return in.fail(err)
	}
	if _, err := ledger.LoadOrCreateVaultKeys(out, rand.Reader); err != nil {
		return in.fail(err)
	}
	fmt.Fprintf(in.Stdout, "keys are in %s; give %s to whoever verifies the log (origin memproxy/%s)\n",
		out, filepath.Join(out, audit.PublicKeyFile), app.Fingerprint(key))
	return cli.OK
}
