package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
	api "github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit/auditcmd"
)

// app is one invocation, with everything that it touches injected so that
// every command can be run in a test.
type app struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Version        string

	// clock, if set, is what the sidecar's ledger, gate and review go by, for
	// tests of what time does.
	clock func() time.Time
	// ticker paces what the sidecar does in the background; nil: the system's.
	ticker ticker

	// steps is told of points at which a crash must lose nothing, and sending
	// bounds what approved writes and rollbacks may take, for tests.
	steps   memproxy.Stepper
	sending time.Duration
	// patience is how many times as long calls of the ledger and stages of a stop
	// may take, for tests on a busy machine; 0 is once.
	patience time.Duration
}

// commandLine is all of memproxy's commands.
func (a *app) commandLine() *cobra.Command {
	review := api.CLI{Stdout: a.Stdout, Stderr: a.Stderr, Getenv: a.Getenv, Clock: time.Now}
	audit := auditcmd.Command(a.Stdout, a.Stderr)
	audit.AddCommand(a.seal())
	root := cli.Group("memproxy", "gates the memory of AI agents", "memproxy demo",
		a.initialise(), a.serve(), a.extproc(), a.demo(), a.check(), a.configuration(), a.explain(), a.screen(), a.try(), audit, a.ledger(),
		a.inject(), a.keygen(), a.control(), a.manual(), a.versionCommand())
	root.AddCommand(review.Commands()...)
	root.Long = "memproxy is a reverse proxy that gates the memory of AI agents."
	root.Version = a.about()
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}

func (a *app) run(ctx context.Context) int {
	return cli.Main(ctx, a.commandLine(), a.Args, a.Stdin, a.Stdout, a.Stderr)
}

// versionCommand prints what --version prints.
func (a *app) versionCommand() *cobra.Command {
	return cli.Leaf("version", "print version, commit, Go version and platform", "memproxy version", func(context.Context) int {
		fmt.Fprintln(a.Stdout, a.about())
		return cli.OK
	})
}

// about is the version and what it was built from, with and for.
func (a *app) about() string {
	return fmt.Sprintf("memproxy %s (commit %s, %s, %s/%s)", a.Version, cmp.Or(commit, builtFrom()), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// builtFrom is the commit that the toolchain recorded, of binaries that are not
// a release.
func builtFrom() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// fail prints an error and returns the exit code of a "no".
func (a *app) fail(err error) int {
	fmt.Fprintln(a.Stderr, "memproxy:", err)
	return cli.Failed
}

// configFlag is where a command's configuration is.
func configFlag(c *cobra.Command, otherwise, what string) *string {
	path := c.Flags().String("config", otherwise, what)
	_ = c.MarkFlagFilename("config", "yaml", "yml") // it was just defined
	return path
}
