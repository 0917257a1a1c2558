// Package auditcmd is the command `memproxy audit`: verify, tail, query and
// prove. It reads a log's directory and needs neither the running proxy nor
// its private key.
//
// It promises exit codes: 0 for yes, 1 for a log or proof that does not hold
// (and for breakage), 2 for a command that cannot be understood.
package auditcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

const (
	exitOK    = 0
	exitBad   = 1
	exitUsage = 2
)

const usage = `usage: memproxy audit COMMAND -dir DIR [flags]

  verify   check the whole log; exit 1 and name the first bad record
  tail     print the last records, and with -f those that follow
  query    print the records that match
  prove    make a proof of inclusion or consistency, or check one
  seal     take over what a backend held before memproxy; takes -config

memproxy audit COMMAND -h prints the flags of a command.
`

// app is one run of the command.
type app struct {
	stdout, stderr io.Writer
	now            func() time.Time
}

// Main runs `memproxy audit` with the arguments behind that, until it is done
// or ctx ends, and returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr, now: time.Now}
	commands := map[string]func(context.Context, []string) (int, error){
		"verify": a.verify, "tail": a.tail, "query": a.query, "prove": a.prove,
	}
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	run, ok := commands[args[0]]
	if !ok {
		fmt.Fprint(stderr, usage)
		if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
			return exitOK
		}
		return exitUsage
	}
	code, err := run(ctx, args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "memproxy audit %s: %v\n", args[0], err)
	}
	return code
}

// flags makes the set of flags that every command has.
func (a *app) flags(name string) (fs *flag.FlagSet, dir, key *string) {
	fs = flag.NewFlagSet("memproxy audit "+name, flag.ContinueOnError)
	fs.SetOutput(a.stderr)
	dir = fs.String("dir", "", "the log's `directory`")
	key = fs.String("key", "", "`file` with the log's public key (log.vkey), kept elsewhere; without it the log's own copy is used")
	return fs, dir, key
}

// parse reads the flags; a log's directory is required unless optional says.
func parse(fs *flag.FlagSet, args []string, dir *string, optional func() bool) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if *dir == "" && (optional == nil || !optional()) {
		return errors.New("-dir is required")
	}
	return nil
}

// keyText reads the public key file, if one is named.
func keyText(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	key := strings.TrimSuffix(string(b), "\n")
	_, err = verify.ParseKey(key)
	return key, err
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func (a *app) verify(ctx context.Context, args []string) (int, error) {
	fs, dir, keyFile := a.flags("verify")
	asJSON := fs.Bool("json", false, "print the report as JSON")
	var trusted list
	fs.Var(&trusted, "checkpoint", "`file` with a checkpoint that was kept elsewhere; shows a log whose end was cut off (may be repeated)")
	if err := parse(fs, args, dir, nil); err != nil {
		return exitUsage, err
	}
	opt := verify.Options{Dir: *dir}
	var err error
	if opt.Key, err = keyText(*keyFile); err != nil {
		return exitUsage, err
	}
	for _, path := range trusted {
		b, err := os.ReadFile(path)
		if err != nil {
			return exitUsage, err
		}
		opt.Trusted = append(opt.Trusted, b)
	}
	if st, err := os.Stat(*dir); err != nil || !st.IsDir() {
		return exitUsage, fmt.Errorf("%s is not a directory", *dir)
	}
	rep, err := verify.Verify(ctx, opt)
	if err != nil {
		return exitBad, err
	}
	if *asJSON {
		if err := a.document(rep); err != nil {
			return exitBad, err
		}
	} else {
		a.report(rep)
	}
	if !rep.OK() {
		return exitBad, nil
	}
	return exitOK, nil
}

// report prints what was found, the first bad record first.
func (a *app) report(rep *verify.Report) {
	if p, bad := rep.First(); bad {
		fmt.Fprintf(a.stdout, "BAD  %s\n", p)
		for _, p := range rep.Problems[1:] {
			fmt.Fprintf(a.stdout, "     %s\n", p)
		}
		return
	}
	fmt.Fprintf(a.stdout, "OK   %d records of %s, root %s\n", rep.Size, rep.Origin, rep.Root)
	if rep.Pruned > 0 {
		fmt.Fprintf(a.stdout, "     records 0 to %d were removed by age, as the log records; their hashes hold\n", rep.Pruned-1)
	}
	if rep.Pending > 0 {
		fmt.Fprintf(a.stdout, "     %d more records are chained and not signed yet\n", rep.Pending)
	}
	fmt.Fprintf(a.stdout, "     consistent with %d older checkpoints\n", rep.Checkpoints)
	if rep.OwnKey {
		fmt.Fprint(a.stdout, "     the key is the log's own: give -key and -checkpoint from elsewhere to know who signed, and that nothing was cut off\n")
	}
}

// document prints a value as indented JSON.
func (a *app) document(v any) error {
	b, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(b, '\n'))
	return err
}
