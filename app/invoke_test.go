package app_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/cmd/memproxy/command"
	"github.com/memproxy/memproxy/internal/seldomgc"
)

// TestMain gives package app's tests the commands, which import it, and raises the
// number of parallel tests, because sidecars mostly wait.
func TestMain(m *testing.M) {
	app.Command = func(in app.Invoked) int {
		c := command.Invocation{Args: in.Args, Stdin: in.Stdin, Stdout: in.Stdout, Stderr: in.Stderr, Getenv: tuned(in.Getenv), Version: in.Version}
		return c.Run(in.Context)
	}
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

// tuned keeps a command from tuning the garbage collector: the memory limit of one
// sidecar is too low for many in one process.
func tuned(getenv func(string) string) func(string) string {
	return func(name string) string {
		if name == "GOGC" || name == "GOMEMLIMIT" {
			return "by TestMain"
		}
		return getenv(name)
	}
}
