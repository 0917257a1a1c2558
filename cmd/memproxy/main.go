// Command memproxy is a reverse proxy that gates the memory of AI agents.
//
// Run "memproxy help" for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/memproxy/memproxy/cmd/memproxy/command"
	"github.com/memproxy/memproxy/internal/cli"
)

// version and commit are set by the linker.
var (
	version = "devel"
	commit  string
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	in := command.Invocation{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: cli.WriterFor(os.Stdout), Stderr: cli.WriterFor(os.Stderr), Getenv: os.Getenv,
		Version: version, Commit: commit,
	}
	os.Exit(in.Run(ctx))
}
