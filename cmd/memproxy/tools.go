package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// configuration prints what is in force.
func (a *app) configuration() *cobra.Command {
	var path *string
	show := cli.Leaf("show", "print the configuration with all defaults, secrets redacted", "memproxy config show --config memproxy.yaml",
		func(ctx context.Context) int { return a.checking(ctx, *path, true) })
	path = configFlag(show, "memproxy.yaml", "configuration `file`")
	return cli.Group("config", "what is in force", "memproxy config show --config memproxy.yaml", show)
}

// check validates a configuration, its policies and its files, without opening
// state, and says what would keep it from running here.
func (a *app) check() *cobra.Command {
	var path *string
	var print bool
	c := cli.Leaf("check", "validate configuration, schema and policies", "memproxy check --config memproxy.yaml",
		func(ctx context.Context) int { return a.checking(ctx, *path, print) })
	path = configFlag(c, "memproxy.yaml", "configuration `file`")
	c.Flags().BoolVar(&print, "print", false, "print the configuration with all defaults, secrets redacted")
	return c
}

func (a *app) checking(ctx context.Context, path string, print bool) int {
	cfg, err := config.Load(path, a.Getenv)
	if err != nil {
		return a.fail(err)
	}
	if _, err := buildIdentifier(cfg, nil); err != nil {
		return a.fail(err)
	}
	rules, err := newRulebook(ctx, cfg, slog.New(slog.DiscardHandler), newLoops(ctx).begin)
	if err != nil {
		return a.fail(err)
	}
	for _, b := range cfg.Backends {
		if _, err := adapterFor(b, cfg.Sources.Table()); err != nil {
			return a.fail(fmt.Errorf("backend %s: %w", b.Name, err))
		}
		if b.TLS.Cert != "" {
			if _, err := listenTLS(b.TLS); err != nil {
				return a.fail(fmt.Errorf("backend %s: %w", b.Name, err))
			}
		}
	}
	if c := cfg.Policy.Control; c != nil {
		if _, err := clientTLS(c); err != nil {
			return a.fail(fmt.Errorf("policy.control: %w", err))
		}
	}
	unsafe, err := cfg.Allowed(a.Getenv(config.UnsafeEnv))
	if err != nil {
		return a.fail(err)
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintln(a.Stderr, "warning:", w)
	}
	for _, name := range unsafe {
		fmt.Fprintln(a.Stderr, "warning:", name, "weakens production, and is allowed to by", config.UnsafeEnv)
	}
	if print {
		b, err := yaml.Marshal(cfg)
		if err != nil {
			return a.fail(err)
		}
		fmt.Fprint(a.Stdout, string(b))
	}
	a.profile(cfg, rules)
	version, _ := rules.state()
	fmt.Fprintf(a.Stdout, "%s is valid: profile %s, %d backend(s), rules %s\n", path, cfg.Profile, len(cfg.Backends), version)
	for _, w := range a.surroundings(cfg) {
		fmt.Fprintln(a.Stdout, "on this machine:", w)
	}
	socket, noSocket := socketPath(cfg.State, a.Getenv)
	fmt.Fprintf(a.Stdout, "held writes are reviewed by %s\n", reviewersAre(cfg, socket))
	if noSocket != nil {
		fmt.Fprintf(a.Stdout, "warning: the operator of this machine cannot review without a token: %v\n", noSocket)
	}
	return cli.OK
}

// keygen makes the keys that serve would make at its first start, so that they
// can be kept elsewhere before.
func (a *app) keygen() *cobra.Command {
	var out string
	c := cli.Leaf("keygen", "make the installation's keys", "memproxy keygen --out keys", func(context.Context) int { return a.makeKeys(out) })
	c.Flags().StringVar(&out, "out", "", "`directory` for the keys")
	return cli.Needs(c, "out")
}

func (a *app) makeKeys(out string) int {
	if err := os.MkdirAll(out, 0o700); err != nil {
		return a.fail(err)
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
		return a.fail(fmt.Errorf("%s is not empty; keys are never overwritten", out))
	}
	key, err := audit.LoadOrCreateKey(out)
	if err != nil {
		return a.fail(err)
	}
	if _, err := ledger.LoadOrCreateKey(out, rand.Reader); err != nil {
		return a.fail(err)
	}
	if _, err := ledger.LoadOrCreateVaultKeys(out, rand.Reader); err != nil {
		return a.fail(err)
	}
	fmt.Fprintf(a.Stdout, "keys are in %s; give %s to whoever verifies the log (origin memproxy/%s)\n",
		out, filepath.Join(out, audit.PublicKeyFile), fingerprint(key))
	return cli.OK
}
