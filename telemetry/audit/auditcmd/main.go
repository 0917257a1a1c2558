// Package auditcmd is the command `memproxy audit`: verify, tail, query and prove. It
// reads a log's directory and needs neither the running proxy nor its private key.
//
// Exit codes: 0 for success, 1 for a log or proof that does not hold and for errors, 2
// for invalid usage.
package auditcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

type app struct {
	stdout, stderr io.Writer
}

// Main runs `memproxy audit` with its arguments, until it is done or ctx ends, and
// returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Main(ctx, Command, args, nil, stdout, stderr)
}

// Command is `memproxy audit`.
func Command(stdout, stderr io.Writer) *cobra.Command {
	a := &app{stdout: stdout, stderr: stderr}
	return cli.Group("audit", "read and verify the audit log", "memproxy audit verify --dir state/audit", a.verify(), a.tail(), a.query(), a.prove())
}

type source struct{ dir, key string }

// keyFlag adds --key to commands that verify. A query prints the log without verifying it.
func (l *source) keyFlag(c *cobra.Command) {
	c.Flags().StringVar(&l.key, "key", "", "`file` with the log's public key (log.vkey), from a separate copy; default: the copy in the log's directory")
}

func missing(dir string) error {
	if dir == "" {
		return nil // checking a proof needs no log
	}
	if st, err := os.Stat(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	} else if err != nil || !st.IsDir() {
		return cli.UsageError(dir + " is not a directory; --dir must be the audit subdirectory of a state directory")
	}
	for _, name := range [...]string{"checkpoint", "tile", "journal"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s contains no audit log; use the audit subdirectory of the state directory", dir)
}

// errProblems is the error of a log whose problems were printed.
const errProblems = cli.ExitError(cli.Failed)

func (a *app) leaf(dir *string, name, short, example string, run func(context.Context) error) *cobra.Command {
	c := cli.Leaf(name, short, "memproxy audit "+name+" --dir state/audit"+example, func(ctx context.Context) error {
		if err := missing(*dir); err != nil {
			return err
		}
		return run(ctx)
	})
	c.Flags().StringVar(dir, "dir", "state/audit", "the log's `directory`")
	return c
}

// keyText reads the public key file, if given.
func keyText(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := input(path)
	if err != nil {
		return "", err
	}
	key := strings.TrimSuffix(string(b), "\n")
	if _, err = verify.ParseKey(key); err != nil {
		err = cli.UsageError(fmt.Sprintf("--key %s: %v; want %s of a log's directory, as origin+hash+base64", path, err, verify.KeyFile))
	}
	return key, err
}

func input(path string) ([]byte, error) {
	b, err := durable.ReadInput(path)
	if err != nil {
		err = cli.UsageError(err.Error())
	}
	return b, err
}

func (a *app) verify() *cobra.Command {
	var l source
	var output *cli.Output
	var trusted []string
	c := a.leaf(&l.dir, "verify", "check the whole log; exit 1 and name the first bad record", " --key log.vkey --checkpoint kept/checkpoint",
		func(ctx context.Context) error { return a.verifying(ctx, l, *output, trusted) })
	l.keyFlag(c)
	output = cli.OutputFlag(c.Flags())
	c.Flags().StringArrayVar(&trusted, "checkpoint", nil, "`file` with a checkpoint from a separate copy, to detect a truncated log (may be repeated)")
	return c
}

func (a *app) verifying(ctx context.Context, l source, output cli.Output, trusted []string) error {
	meter := output.Meter(a.stderr, "records")
	defer meter.Done()
	opt := verify.Options{Dir: l.dir, Progress: meter.Progress()}
	var err error
	if opt.Key, err = keyText(l.key); err != nil {
		return err
	}
	for _, path := range trusted {
		b, err := input(path)
		if err != nil {
			return err
		}
		opt.Trusted = append(opt.Trusted, b)
	}
	rep, err := verify.Verify(ctx, opt)
	meter.Done()
	if err == nil {
		err = output.Print(a.stdout, rep, func(io.Writer) { a.report(rep) })
	}
	if err == nil && !rep.OK() {
		err = errProblems
	}
	return err
}

// report prints the problems, the first bad record first.
func (a *app) report(rep *verify.Report) {
	if !rep.OK() {
		fmt.Fprintf(a.stdout, "BAD  %s\n", rep.Problems[0])
		for _, p := range rep.Problems[1:] {
			fmt.Fprintf(a.stdout, "     %s\n", p)
		}
		return
	}
	fmt.Fprintf(a.stdout, "OK   %d records of %s, root %s\n", rep.Size, rep.Origin, rep.Root)
	if rep.Pruned > 0 {
		fmt.Fprintf(a.stdout, "     records 0 to %d were pruned by age or size, as recorded in the log; their hashes are verified\n", rep.Pruned-1)
	}
	if rep.Pending > 0 {
		fmt.Fprintf(a.stdout, "     %d more records are chained but not signed yet\n", rep.Pending)
	}
	fmt.Fprintf(a.stdout, "     consistent with %d older checkpoints\n", rep.Checkpoints)
	if rep.OwnKey {
		fmt.Fprint(a.stdout, "     the key is the copy in the log's directory: pass --key and --checkpoint from a separate copy to verify the signer and to detect truncation\n")
	}
}
