// Command times prints the tests of the core that take over two seconds on their
// own. It runs everything first, and then again, one at a time, what took that
// long while others run: a measure, for a machine that does nothing else.
//
//	go run ./internal/times
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// bound is how long a test of the core may take, in seconds.
const bound = 2

// event is a line of go test -json.
type event struct {
	Action, Package, Test string
	Elapsed               float64
}

func main() {
	all, err := run("./...")
	for _, slow := range all {
		alone, oneErr := run("-run", "^"+slow.Test+"$", slow.Package)
		if oneErr != nil {
			err = oneErr
		}
		for _, e := range alone {
			fmt.Printf("%6.1f s alone, %6.1f s beside others  %s.%s\n", e.Elapsed, slow.Elapsed, e.Package, e.Test)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
		os.Exit(1)
	}
}

// run runs tests and returns those over the bound.
func run(args ...string) (slow []event, err error) {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" || strings.Contains(e.Test, "/") {
			continue
		}
		if e.Action == "fail" {
			fmt.Printf("failed: %s.%s\n", e.Package, e.Test)
		}
		if (e.Action == "pass" || e.Action == "fail") && e.Elapsed > bound {
			slow = append(slow, e)
		}
	}
	if err := lines.Err(); err != nil {
		_ = cmd.Process.Kill() // the first error is the one to report
		return slow, err
	}
	return slow, cmd.Wait()
}
