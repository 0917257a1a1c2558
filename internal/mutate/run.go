package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy/internal/proofs"
)

// workbench runs tests with a fault in the place of a file.
type workbench struct {
	dir   string
	limit time.Duration
	sound map[string]bool // packages and tests that pass without a fault
}

// try puts f in and runs the tests that prove its requirement, those of its
// own package first. It returns the first test that failed, "" if none did.
func (w *workbench) try(ctx context.Context, f fault, all []proofs.Proof) (string, error) {
	if len(all) == 0 {
		return "", fmt.Errorf("no test proves %s", f.Requirement)
	}
	at, err := f.Place.find(".")
	if err != nil {
		return "", err
	}
	changed, err := at.with(f)
	if err != nil {
		return "", err
	}
	overlay, err := w.overlay(at.file, changed)
	if err != nil {
		return "", err
	}
	for _, group := range groups(f.Place.Dir, all) {
		// Without the fault they pass, or their failing says nothing.
		key := group.dir + " " + group.pattern
		if !w.sound[key] {
			if failed, out, err := w.test(ctx, group, ""); err != nil {
				return "", err
			} else if failed != "" {
				return "", fmt.Errorf("%s fails without a fault:\n%s", failed, tail(out))
			}
			w.sound[key] = true
		}
		failed, _, err := w.test(ctx, group, overlay)
		if err != nil || failed != "" {
			return failed, err
		}
	}
	return "", nil
}

// group is the tests of one package.
type group struct{ dir, pattern string }

// groups joins the tests by package, with the package in own first and the
// program's, which take longest, last.
func groups(own string, all []proofs.Proof) []group {
	tests := map[string][]string{}
	var dirs []string
	for _, p := range all {
		if tests[p.Dir] == nil {
			dirs = append(dirs, p.Dir)
		}
		tests[p.Dir] = append(tests[p.Dir], regexp.QuoteMeta(p.Test))
	}
	rank := func(dir string) int {
		switch {
		case dir == own:
			return 0
		case strings.HasPrefix(dir, "cmd/"):
			return 2
		}
		return 1
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return rank(a) - rank(b) })
	var out []group
	for _, dir := range dirs {
		out = append(out, group{dir, "^(" + strings.Join(tests[dir], "|") + ")$"})
	}
	return out
}

// overlay writes the changed file and the compiler's list of replacements.
func (w *workbench) overlay(file, changed string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	instead := filepath.Join(w.dir, "fault.go")
	if err := os.WriteFile(instead, []byte(changed), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: instead}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(w.dir, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}

var (
	failedPackage = regexp.MustCompile(`(?m)^FAIL\s+\S+`)
	failedTest    = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	unbuilt       = regexp.MustCompile(`\[(build|setup) failed\]`)
)

// test runs the group's tests and returns the one that failed. That the
// program does not compile, or that there are no such tests, is an error.
func (w *workbench) test(ctx context.Context, g group, overlay string) (failed string, out []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit+2*time.Minute)
	defer cancel()
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout", w.limit.String(), "-run", g.pattern}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+g.dir)...)
	out, err = cmd.CombinedOutput()
	failed, err = g.outcome(out, err)
	return failed, out, err
}

// outcome reads what go test made of the group: the test that failed, or the
// package in which one panicked or ran out of time; "" if all passed. What
// says nothing of the tests is an error, and kills no fault.
func (g group) outcome(out []byte, err error) (failed string, _ error) {
	m := failedTest.FindSubmatch(out)
	switch {
	case unbuilt.Match(out):
		return "", fmt.Errorf("it does not compile:\n%s", tail(out))
	case bytes.Contains(out, []byte("no tests to run")):
		return "", fmt.Errorf("%s has no test %s", g.dir, g.pattern)
	case err == nil:
		return "", nil
	case m != nil:
		return g.dir + "." + string(m[1]), nil
	case failedPackage.Match(out) && !bytes.Contains(out, []byte("signal: killed")):
		return g.dir, nil
	}
	return "", fmt.Errorf("go test did not come to an end: %w\n%s", err, tail(out))
}

// tail is the end of a command's output.
func tail(out []byte) string {
	if len(out) > 2000 {
		out = out[len(out)-2000:]
	}
	return string(out)
}
