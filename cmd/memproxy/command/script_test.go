package command_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/memproxy/memproxy/cmd/memproxy/command"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// The scripts show what a command line says and how it exits.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: os.Getenv("UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// oldledger FILE: a ledger as an earlier version wrote it.
			"oldledger": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), ledgertest.OldFile(t), 0o600))
			},
			// exits CODE COMMAND...: the command ends with this exit code.
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				code := 0
				var ended *exec.ExitError
				if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
					code = ended.ExitCode()
				} else {
					ts.Check(err)
				}
				if strconv.Itoa(code) != args[0] {
					ts.Fatalf("exit code %d, want %s", code, args[0])
				}
			},
		},
	})
}

// TestMain has scripts run the test binary as memproxy.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"memproxy": func() {
		in := command.Invocation{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Version: "test"}
		os.Exit(in.Run(context.Background()))
	}})
}
