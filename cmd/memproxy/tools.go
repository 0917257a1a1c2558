package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/auditcmd"
)

// configuration prints what is in force.
func (a *app) configuration(ctx context.Context, args []string) int {
	if len(args) == 0 || args[0] != "show" {
		fmt.Fprintln(a.Stderr, "memproxy config: the command is config show -config FILE")
		return 2
	}
	return a.check(ctx, append([]string{"-print"}, args[1:]...))
}

// check validates a configuration, its policies and its files, without
// opening state or listening.
func (a *app) check(ctx context.Context, args []string) int {
	fs := a.flags("check")
	path := fs.String("config", "memproxy.yaml", "configuration file")
	print := fs.Bool("print", false, "print the configuration with all defaults, secrets redacted")
	if code := a.parse(fs, args); code >= 0 {
		return code
	}
	cfg, err := config.Load(*path, a.Getenv)
	if err != nil {
		return a.fail(err)
	}
	if _, err := buildIdentifier(cfg); err != nil {
		return a.fail(err)
	}
	rules, err := newRulebook(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return a.fail(err)
	}
	for _, b := range cfg.Backends {
		if _, err := adapterFor(b); err != nil {
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
	for _, w := range cfg.Warnings() {
		fmt.Fprintln(a.Stderr, "warning:", w)
	}
	if *print {
		b, err := yaml.Marshal(cfg)
		if err != nil {
			return a.fail(err)
		}
		fmt.Fprint(a.Stdout, string(b))
	}
	version, _ := rules.state()
	fmt.Fprintf(a.Stdout, "%s is valid: profile %s, %d backend(s), rules %s\n", *path, cfg.Profile, len(cfg.Backends), version)
	fmt.Fprintf(a.Stdout, "held writes are reviewed by %s\n", reviewersAre(cfg, filepath.Join(cfg.State, reviewSocket)))
	return exitOK
}

// audit reads and verifies the log, and seals.
func (a *app) audit(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "seal" {
		return a.seal(ctx, args[1:])
	}
	return auditcmd.Main(ctx, args, a.Stdout, a.Stderr)
}

// keygen makes the keys that serve would make at its first start, so that they
// can be kept elsewhere before.
func (a *app) keygen(_ context.Context, args []string) int {
	fs := a.flags("keygen")
	out := fs.String("out", "", "directory for the keys")
	if code := a.parse(fs, args); code >= 0 {
		return code
	}
	if *out == "" {
		fmt.Fprintln(a.Stderr, "memproxy keygen: -out is required")
		return exitUsage
	}
	if err := os.MkdirAll(*out, 0o700); err != nil {
		return a.fail(err)
	}
	if entries, err := os.ReadDir(*out); err != nil || len(entries) > 0 {
		return a.fail(fmt.Errorf("%s is not empty; keys are never overwritten", *out))
	}
	key, err := audit.LoadOrCreateKey(*out)
	if err != nil {
		return a.fail(err)
	}
	if _, err := ledger.LoadOrCreateKey(*out, rand.Reader); err != nil {
		return a.fail(err)
	}
	if _, err := ledger.LoadOrCreateVaultKeys(*out, rand.Reader); err != nil {
		return a.fail(err)
	}
	fmt.Fprintf(a.Stdout, "keys are in %s; give %s to whoever verifies the log (origin memproxy/%s)\n",
		*out, filepath.Join(*out, audit.PublicKeyFile), fingerprint(key))
	return exitOK
}
