// Package command is memproxy's command line. Each command parses its options, calls
// another package that does the work, and prints the result.
package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/internal/cli"
	api "github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit/auditcmd"
)

// Invocation is one run of memproxy. Everything outside of the process that it uses is
// injected, so that every command can be run in a test.
type Invocation struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Version and Commit identify the build.
	Version, Commit string
}

// Commands returns all commands of memproxy.
func (in *Invocation) Commands() *cobra.Command {
	review := api.CLI{Stdout: in.Stdout, Getenv: in.Getenv, Clock: time.Now}
	audit := auditcmd.Command(in.Stdout, in.Stderr)
	audit.AddCommand(in.seal())
	built := cli.BuildOf(in.Version, in.Commit)
	version := answerCommand(in, "version", "print version, commit, Go version and platform", "memproxy version --json",
		func(context.Context) (cli.Build, error) { return built, nil }, func(*cli.Build) bool { return true }, func(w io.Writer, b *cli.Build) { fmt.Fprintln(w, "memproxy", b) })
	show := in.check("show", "print the configuration with all defaults, secrets redacted", "memproxy config show --config memproxy.yaml", true)
	root := cli.Group("memproxy", "gates the memory of AI agents", "memproxy demo",
		in.initialise(), in.sidecar("serve", "run the sidecar", "memproxy serve --config memproxy.yaml", nil), in.extproc(), in.demo(), in.check("check", "validate configuration, schema and policies", "memproxy check --config memproxy.yaml", false),
		cli.Group("config", "show the effective configuration", show.Example[2:], show), in.explain(), in.screen(), in.try(), in.approve(), audit, in.ledger(),
		in.inject(), in.keygen(), in.control(), in.manual(), version)
	root.AddCommand(review.Commands()...)
	root.Long = "memproxy is a reverse proxy that gates the memory of AI agents."
	root.Version = built.String()
	return root
}

// Run runs the command that Args name, and returns its exit code.
func (in *Invocation) Run(ctx context.Context) int {
	return cli.Main(ctx, func(stdout, stderr io.Writer) *cobra.Command {
		plain := *in
		plain.Stdout, plain.Stderr = stdout, stderr
		return plain.Commands()
	}, in.Args, in.Stdin, in.Stdout, in.Stderr)
}

// answerCommand returns a leaf that prints an answer in the requested format. It exits with 1
// if the answer is not well.
func answerCommand[A any](in *Invocation, use, short, example string, ask func(context.Context) (A, error), well func(*A) bool, table func(io.Writer, *A)) *cobra.Command {
	var output *cli.Output
	c := cli.Leaf(use, short, example, func(ctx context.Context) error {
		a, err := ask(ctx)
		if err != nil {
			return err
		}
		return exitUnless(well(&a), output.Print(in.Stdout, a, func(w io.Writer) { table(w, &a) }))
	})
	output = cli.OutputFlag(c.Flags())
	return c
}

// exitUnless returns the error of a command that printed an answer: none if the answer is
// yes, else an exit code.
func exitUnless(answer bool, err error) error {
	if err == nil && !answer {
		return cli.ExitError(cli.Failed)
	}
	return err
}
