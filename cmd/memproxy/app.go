package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/memproxy/memproxy"
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

	// steps is told of points at which a crash must lose nothing, and sending
	// bounds what approved writes and rollbacks may take, for tests.
	steps   memproxy.Stepper
	sending time.Duration
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the command ran and the answer is no: an invalid configuration, a bad log
	exitUsage  = 2 // the command line is wrong
)

// command is one verb of the command line.
type command struct {
	name, args, about string
	run               func(*app, context.Context, []string) int
}

func commands() []command {
	return []command{
		{"serve", "-config FILE", "run the sidecar", (*app).serve},
		{"extproc", "-config FILE [-listen ADDR] [-authz]", "run the Envoy face, with the HTTP one beside it", (*app).extproc},
		{"demo", "[-json] [-stay]", "play each threat against a bare backend and through memproxy", (*app).demo},
		{"check", "-config FILE", "validate configuration, schema and policies", (*app).check},
		{"config", "show -config FILE", "print the configuration with all defaults, secrets redacted", (*app).configuration},
		{"explain", "-config FILE -backend NAME -method M -path P [-body FILE] [-as PRINCIPAL] [-json]", "every step's answer to a request; nothing is sent", (*app).explain},
		{"screen", "[-source S] [-trust T] [-sensitivity low|medium|high] [-pack DIR] [-config FILE [-backend NAME]]", "judge texts: JSON lines on stdin, or what a backend holds", (*app).screen},
		{"audit", "verify|tail|prove|query -dir DIR | seal -config FILE -backend NAME -tenant T", "read and verify the audit log; take over what a backend held before", (*app).audit},
		{"ledger", "sweep|accept -config FILE [flags]", "compare what backends hold with what went through memproxy; accept a broken chain", (*app).ledgerCommand},
		{"holds", "list|show|approve|reject|resolve", "what is held, and the word of a reviewer", reviewing("holds")},
		{"memory", "history|trace|rollback|pin|promote", "the versions of a memory, and who said what", reviewing("memory")},
		{"sessions", "summary|unlock", "what was refused in a session, and why", reviewing("sessions")},
		{"status", "[-admin URL] [-json]", "what a running sidecar let in, holds and refuses, and how it is", reviewing("status")},
		{"inject", "-config FILE", "put the sidecar into pods: Kubernetes admission webhooks", (*app).inject},
		{"keygen", "-out DIR", "make the installation's keys", (*app).keygen},
		{"control", "-config FILE | status | keygen | sign | stop | diff", "run the fleet's control plane; release rules to it", (*app).control},
		{"version", "", "print the version", (*app).version},
	}
}

func (a *app) run(ctx context.Context) int {
	if len(a.Args) == 0 {
		a.usage(a.Stderr)
		return exitUsage
	}
	name := a.Args[0]
	for _, c := range commands() {
		if c.name == name {
			return c.run(a, ctx, a.Args[1:])
		}
	}
	if name == "help" || name == "-h" || name == "--help" {
		a.usage(a.Stdout)
		return exitOK
	}
	fmt.Fprintf(a.Stderr, "memproxy: unknown command %q\n", name)
	a.usage(a.Stderr)
	return exitUsage
}

func (a *app) usage(w io.Writer) {
	fmt.Fprint(w, "memproxy gates the memory of AI agents.\n\nusage: memproxy COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-8s %s\n           %s\n", c.name, c.about, c.args)
	}
}

func (a *app) version(context.Context, []string) int {
	fmt.Fprintln(a.Stdout, "memproxy", a.Version)
	return exitOK
}

// flags returns a flag set that reports to the app's stderr.
func (a *app) flags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet("memproxy "+name, flag.ContinueOnError)
	fs.SetOutput(a.Stderr)
	return fs
}

// parse parses and refuses stray arguments. It returns an exit code, or -1 to
// go on.
func (a *app) parse(fs *flag.FlagSet, args []string) int {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(a.Stderr, "%s: unexpected argument %q\n", fs.Name(), fs.Arg(0))
		return exitUsage
	}
	return -1
}

// fail prints an error and returns the exit code of a "no".
func (a *app) fail(err error) int {
	fmt.Fprintln(a.Stderr, "memproxy:", err)
	return exitFailed
}
