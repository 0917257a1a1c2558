// Package cli is what memproxy's commands have in common: exit codes, and errors
// that say what to type.
//
// The command line itself is cobra's (github.com/spf13/cobra).
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy"
)

// Exit codes.
const (
	OK     = 0
	Failed = 1 // the command ran, and the answer is no
	Usage  = 2 // the command line is wrong
	Denied = 3 // what was asked about would be refused
)

// ExitError is a command's exit code as an error. Whoever returns it has said why.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Misuse is an error that may say that the command line is wrong.
type Misuse interface {
	error
	Misuse() bool
}

// UsageError is an error in the command line.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// Misuse implements Misuse.
func (UsageError) Misuse() bool { return true }

// failure is the error of a command that ran. Others are of the command line.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// code is the exit code of a command that ran.
func (f failure) code() int {
	if wrong, is := errors.AsType[Misuse](f.error); is && wrong.Misuse() {
		return Usage
	}
	return Failed
}

// Leaf returns a command that takes no arguments and runs run. Main prints its error,
// unless it is an ExitError. Example is a command line that help shows. Options are added
// to the command's Flags.
func Leaf(use, short, example string, run func(context.Context) error) *cobra.Command {
	c := LeafArgs(use, short, example, func(ctx context.Context, _ []string) error { return run(ctx) })
	c.Args = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && c.HasSubCommands():
			return unknown(c, args[0])
		case len(args) > 0:
			return fmt.Errorf("unexpected argument %q", args[0])
		}
		return nil
	}
	return c
}

// LeafArgs is Leaf for a command that takes arguments, among which options may
// stand.
func LeafArgs(use, short, example string, run func(context.Context, []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: "  " + example,
		RunE: func(c *cobra.Command, args []string) error {
			if err := run(c.Context(), args); err != nil {
				return failure{err}
			}
			return nil
		},
	}
}

// RequireFlags has a command refuse to run without a value for each of these options.
func RequireFlags(c *cobra.Command, names ...string) *cobra.Command {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		var missing []string
		for _, name := range names {
			if f := c.Flag(name); strings.TrimSpace(f.Value.String()) == "" || f.Value.String() == f.DefValue {
				missing = append(missing, "--"+name)
			}
		}
		switch {
		case len(missing) == 1:
			return fmt.Errorf("%s is required", missing[0])
		case len(missing) > 1:
			return fmt.Errorf("%s are required", strings.Join(missing, ", "))
		case before != nil:
			return before(c, args)
		}
		return nil
	}
	return c
}

// Group returns a command that has only others below it.
func Group(use, short, example string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Example: "  " + example, Args: cobra.ArbitraryArgs, RunE: choose, DisableFlagsInUseLine: true}
	c.AddCommand(below...)
	return c
}

// choose refuses a command line that ends at a group, or has a word that is none of its
// commands.
func choose(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("which command?\n\n" + strings.TrimRight(c.UsageString(), "\n"))
	}
	return unknown(c, args[0])
}

// help is cobra's help command, which would answer an unknown word with the help of what
// is above it and exit code 0.
func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "help about a command", Example: "  memproxy help serve",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0:
				return unknown(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// unknown is the error for a word that is no command, with those that may have
// been meant.
func unknown(c *cobra.Command, word string) error {
	var meant strings.Builder
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2
	}
	for i, s := range c.SuggestionsFor(word) {
		if i == 0 {
			meant.WriteString("\n\nDid you mean this?")
		}
		meant.WriteString("\n  " + c.CommandPath() + " " + s)
	}
	return fmt.Errorf("unknown command %q%s", word, meant.String())
}

// Main runs a command line and returns its exit code. Errors of the command
// line go to stderr; help, which was asked for, to stdout. The commands are made
// with writers that escape what steers a terminal, so that none of them prints
// past these.
func Main(ctx context.Context, commands func(stdout, stderr io.Writer) *cobra.Command, args []string, stdin io.Reader, to, errorsTo io.Writer) int {
	stdout, stderr := &plain{to: to}, &plain{to: errorsTo}
	root := commands(stdout, stderr)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	root.SetFlagErrorFunc(misspelt(args))
	root.SetHelpCommand(help())
	var wrong error // of --help after a word that is no command
	whole := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if words := c.Flags().Args(); c.HasSubCommands() && len(words) > 0 {
			wrong = unknown(c, words[0])
			return
		}
		whole(c, args)
	})
	root.InitDefaultCompletionCmd(args...) // which writes to what SetOut was given
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = cobra.ArbitraryArgs, choose
		completion.Example = "  source <(" + completion.CommandPath() + " bash)"
		for _, shell := range completion.Commands() {
			shell.Example = "  " + shell.CommandPath()
		}
	}
	inDecimal(root)
	c, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, wrong)
	var code ExitError
	var ran failure
	if stdout.lost != nil && !errors.As(err, &ran) { // what prints lines one by one does not look at each error
		err = failure{stdout.lost}
	}
	switch {
	case errors.As(err, &code):
		return int(code)
	case err == nil:
		return OK
	}
	fmt.Fprintf(stderr, "%s: %s\n", c.CommandPath(), strings.ReplaceAll(err.Error(), "\n\t", " ")) // errors of pgx contain indented lines
	if errors.As(err, &ran) {
		return ran.code()
	}
	if !strings.Contains(err.Error(), "\n") {
		fmt.Fprintf(stderr, "Run '%s --help' for its options.\n", c.CommandPath())
	}
	return Usage
}

// decimal is the value of an option that takes a number. pflag reads other bases, too, and 010
// as 8.
type decimal struct{ pflag.Value }

func (d decimal) Set(text string) error {
	digits := strings.TrimPrefix(text, "-")
	if _, ok := memproxy.Decimal(digits); !ok || len(digits) > 1 && digits[0] == '0' && digits[1] != '.' {
		return strconv.ErrSyntax
	}
	return d.Value.Set(text)
}

// inDecimal has all options of a command and of those below it read numbers in decimal digits.
func inDecimal(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "int64", "uint64", "float64":
			f.Value = decimal{f.Value}
		}
	})
	for _, below := range c.Commands() {
		inDecimal(below)
	}
}

// misspelt is the error for options that a command does not have. Every option
// of several letters has two dashes.
func misspelt(args []string) func(*cobra.Command, error) error {
	return func(c *cobra.Command, err error) error {
		if words := c.Flags().Args(); c.HasSubCommands() && len(words) > 0 {
			return unknown(c, words[0])
		}
		for _, arg := range args {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
			if len(name) > 1 && arg[0] == '-' && c.Flag(name) != nil {
				return fmt.Errorf("%w: write --%s", err, name)
			}
		}
		var value *pflag.InvalidValueError
		if errors.As(err, &value) && errors.Is(err, strconv.ErrSyntax) {
			return fmt.Errorf("--%s %q is not a number", value.GetFlag().Name, value.GetValue())
		}
		return err
	}
}

const maxText = 1 << 20 // bytes on stdin

// TextArg has a command take a text as its words, and returns what reads it: - is
// standard input.
func TextArg(c *cobra.Command, stdin io.Reader) func() (string, error) {
	var text string
	c.Args = func(_ *cobra.Command, words []string) error {
		if text = strings.Join(words, " "); strings.TrimSpace(text) == "" {
			return errors.New("expected a text")
		}
		return nil
	}
	return func() (string, error) {
		if text != "-" {
			return text, nil
		}
		b, err := io.ReadAll(io.LimitReader(stdin, maxText+1))
		if err == nil && (len(b) > maxText || strings.TrimSpace(string(b)) == "") {
			err = fmt.Errorf("stdin has %d bytes: want a text of at most %d", len(b), maxText)
		}
		return string(b), err
	}
}
