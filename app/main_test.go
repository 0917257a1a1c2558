package app_test

import (
	"cmp"
	"context"
	"flag"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/cmd/memproxy/command"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/seldomgc"
)

// TestMain raises the number of parallel tests, because sidecars mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		at := "8"
		if testing.Short() { // the race detector makes them CPU-bound
			at = "3"
		}
		_ = f.Value.Set(at)
	}
	seldomgc.Main(m)
}

// invocation is a command line that a test runs.
type invocation command.Invocation

// run does not let the command tune the garbage collector: the memory limit of one
// sidecar is too low for many in one process.
func (in *invocation) run(ctx context.Context) int {
	c := command.Invocation(*in)
	c.Getenv = func(name string) string {
		if name == "GOGC" || name == "GOMEMLIMIT" {
			return "by TestMain"
		}
		return in.Getenv(name)
	}
	return c.Run(ctx)
}

// invoke runs a command line.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs lockedBuffer
	a := &invocation{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: os.Getenv, Version: "test"}
	code = a.run(context.Background())
	return code, out.String(), errs.String()
}

// ran runs a command line. Its answer has the exit code as status, and as body what was
// printed: on stdout or, if nothing was, on stderr.
func ran(t *testing.T, args ...string) got {
	t.Helper()
	code, out, errs := invoke(t, args...)
	return got{status: code, body: cmp.Or(out, errs), of: []any{strings.Join(args, " "), errs}}
}

// says runs a command that ends with a code and says a text: on stderr if it failed or
// could not be read, else on stdout.
func says(t *testing.T, code int, text string, args ...string) {
	t.Helper()
	got, out, errs := invoke(t, args...)
	said := out
	if code == cli.Failed || code == cli.Usage {
		said = errs
	}
	expect.Equal(t, got, code, strings.Join(args, " "), out, errs)
	expect.Text(t, said, strings.Join(args, " "), out, errs).Has(text)
}

// carries fails the test unless a header of the answer has the value.
func (a got) carries(t testing.TB, header, value string) got {
	t.Helper()
	expect.Equal(t, a.header.Get(header), value, append(slices.Clip(a.of), header, a.status, a.body)...)
	return a
}
