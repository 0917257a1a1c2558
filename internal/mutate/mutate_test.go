package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/ring"
)

// root is the module's root.
const root = "../.."

// TestFaultsCanBePutIn keeps the list true: each fault's lines stand in its
// file once, and its requirement has tests that could notice it.
func TestFaultsCanBePutIn(t *testing.T) {
	ring.Slow(t, "a quoted line that moves is no fault of the program")
	faults, err := readFaults("faults")
	if err != nil {
		t.Fatal(err)
	}
	proofs, err := readProofs(filepath.Join(root, "docs", "requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	says := map[string]bool{}
	for _, f := range faults {
		if says[f.File+f.Says] {
			t.Errorf("%s: %q is in the list twice", f.File, f.Says)
		}
		says[f.File+f.Says] = true
		if len(proofs[f.Requirement]) == 0 {
			t.Errorf("%s: no test proves %s", f.Says, f.Requirement)
		}
		src, err := os.ReadFile(filepath.Join(root, f.File))
		if err != nil {
			t.Error(err)
			continue
		}
		if changed, err := f.apply(string(src)); err != nil {
			t.Errorf("%s: %s: %v", f.File, f.Says, err)
		} else if changed == string(src) {
			t.Errorf("%s: %s: changes nothing", f.File, f.Says)
		}
	}
}

func TestApply(t *testing.T) {
	const src = "func f() {\n\tif a {\n\t\tb()\n\t}\n\tb()\n}\n"
	one, err := parseFaults("# why\nSYN-1 x.go\nb is not called in a\n- if a {\n- b()\n+ if a {\n\n")
	if err != nil || len(one) != 1 {
		t.Fatal(one, err)
	}
	if got, err := one[0].apply(src); err != nil || strings.Count(got, "b()") != 1 {
		t.Errorf("%q, %v", got, err)
	}
	for _, lines := range []string{"- b()", "- c()"} { // twice; not there
		list, err := parseFaults("SYN-1 x.go\nwords\n" + lines + "\n+ d()")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := list[0].apply(src); err == nil {
			t.Errorf("%s gave %q", lines, got)
		}
	}
	for _, text := range []string{"SYN-1\nwords\n- a\n+ b", "SYN-1 x.go\nwords\n+ b\n+ c", "SYN-1 x.go\nwords\n- a\nb"} {
		if _, err := parseFaults(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestPart(t *testing.T) {
	all := make([]fault, 10)
	for share, want := range map[string]int{"1/1": 10, "1/3": 4, "3/3": 3, "day/3": 3} {
		if got, err := part(all, share, 5); err != nil || len(got) != want {
			t.Errorf("%s: %d, %v", share, len(got), err)
		}
	}
	for _, share := range []string{"0/3", "4/3", "x/3", "1/0", "1", ""} {
		if _, err := part(all, share, 5); err == nil {
			t.Errorf("%q was taken", share)
		}
	}
}

func TestGroups(t *testing.T) {
	got := groups("gate", []proof{{"cmd/memproxy", "TestA"}, {"screen", "TestB"}, {"gate", "TestC"}, {"gate", "TestD"}})
	if len(got) != 3 || got[0] != (group{"gate", "^(TestC|TestD)$"}) || got[2].dir != "cmd/memproxy" {
		t.Error(got)
	}
}

// A fault is killed by tests that fail, and by nothing else that goes wrong.
func TestOutcome(t *testing.T) {
	g, exit := group{"gate", "^TestA$"}, errors.New("exit status 1")
	for out, want := range map[string]string{
		"ok  \tm/gate\t0.1s\n": "",
		"--- FAIL: TestA (0.0s)\n    x_test.go:1: no\nFAIL\nFAIL\tm/gate\t0.1s\n": "gate.TestA",
		"panic: test timed out after 3m0s\nFAIL\tm/gate\t180.1s\nFAIL\n":          "gate",
	} {
		err := exit
		if want == "" {
			err = nil
		}
		if got, err := g.outcome([]byte(out), err); got != want || err != nil {
			t.Errorf("%q: %q, %v", out, got, err)
		}
	}
	for _, out := range []string{"", "FAIL\tm/gate [build failed]\n", "signal: killed\nFAIL\tm/gate\t9.1s\n", "ok  \tm/gate\t0.1s [no tests to run]\n", "go: no space left on device\n"} {
		if got, err := g.outcome([]byte(out), exit); got != "" || err == nil {
			t.Errorf("%q: killed by %q", out, got)
		}
	}
}
