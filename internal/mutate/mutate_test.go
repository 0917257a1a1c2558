package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/proofs"
	"github.com/memproxy/memproxy/internal/ring"
)

// root is the module's root.
const root = "../.."

// TestFaultsCanBePutIn keeps the list true: each fault's text is in its
// declaration once, what is put there parses, and the requirement has tests that
// could notice.
func TestFaultsCanBePutIn(t *testing.T) {
	ring.Slow(t, "a quoted line that is written anew is no fault of the program")
	faults := must.Get(readFaults("faults"))(t)
	proving := must.Get(readProofs(root))(t)
	known := map[string]bool{}
	for _, f := range faults {
		key := f.Place.String() + ": " + f.Breaks
		expect.Equal(t, known[f.Requirement+key], false, key, "it is in the list twice")
		known[f.Requirement+key] = true
		expect.Equal(t, len(proving[f.Requirement]) != 0, true, key, "no test proves", f.Requirement)
		at, err := f.Place.find(root)
		if err == nil {
			_, err = at.with(f)
		}
		expect.OK(t, err, key)
	}
}

// module writes a package m of the given files and returns its root.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(root, "m"), 0o755))
	for name, src := range files {
		must.Do(t, os.WriteFile(filepath.Join(root, "m", name), []byte("package m\n\n"+src), 0o644))
	}
	return root
}

// A fault is put into the declaration that it names, in whatever file and form
// that is.
func TestFaultsFollowTheirDeclaration(t *testing.T) {
	const f = "// f calls b() in a.\nfunc f() {\n\tif a {\n\t\tb()\n\t}\n}\n"
	list, err := parseFaults("# why\nSYN-1 m.f\nb is not called in a\n- if a {\n- b()\n+ if a {\n\n\n" +
		"SYN-1 m.(T).f\nx is two\n- x = 1\n+ x = 2\n\nSYN-1 m.limit\nthe limit is none\n- 10\n+ 0\n\nSYN-1 m.T\na is b\n- a int\n+ b int")
	must.Do(t, err)
	must.Len(t, list, 4)
	for name, files := range map[string]map[string]string{
		"one file": {"a.go": f + "func (t *T) f() { x = 1 }\nconst limit = 10\ntype T struct{ a int }\n"},
		"moved":    {"a.go": "func g() { if a { b() } }\n", "b.go": f, "c.go": "type (\nT struct {\na   int\n}\n)\n\nconst (\n\tless = 10\n\tlimit = 10\n)\n", "d.go": "func (T) f() {\nx   =   1 }\n"},
		"generic":  {"a.go": strings.ReplaceAll(f, "\n\t\t", " ") + "func (t *T[A, B]) f() { x=1 }\nfunc (t *T[A, B]) g() { x = 1 }\nvar limit = 10\ntype T[A, B any] struct{ a int }\n"},
	} {
		root := module(t, files)
		for i, want := range []string{"if a {\n}", "x = 2", "limit = 0", "{b int}"} {
			at, err := list[i].Place.find(root)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, err := at.with(list[i])
			if have, _ := plain(got); err != nil || !strings.Contains(have, strings.Join(strings.Fields(want), "")) {
				t.Errorf("%s: %q, %v: want %q", name, got, err, want)
			}
		}
	}
}

// What cannot be put in says so and is never put in elsewhere.
func TestFaultsThatCannotBePutIn(t *testing.T) {
	root := module(t, map[string]string{
		"a.go":      "func f() { b(); b() }\nfunc g() { c() }\nfunc twice() { d() }\nfunc (T) m() { d() }\n",
		"b.go":      "func twice() { d() }\n",
		"a_test.go": "func tested() { d() }\n",
	})
	for block, want := range map[string]string{
		"m.f\nwords\n- b()\n+ d()":         "twice",
		"m.f\nwords\n- c()\n+ d()":         "no longer",
		"m.g\nwords\n- c()\n+ c( )":        "nothing",
		"m.g\nwords\n- c()\n+ c(":          "expected",
		"m.twice\nwords\n- d()\n+ c()":     "declared in",
		"m.tested\nwords\n- d()\n+ c()":    "there is no",
		"m.m\nwords\n- d()\n+ c()":         "there is no",
		"m.(U).m\nwords\n- d()\n+ c()":     "there is no",
		"elsewhere.f\nwords\n- b()\n+ d()": "there is no",
	} {
		list := must.Get(parseFaults("SYN-1 " + block))(t)
		at, err := list[0].Place.find(root)
		if err == nil {
			_, err = at.with(list[0])
		}
		expect.ErrorHas(t, err, want, block)
	}
	for _, text := range []string{"SYN-1\nwords\n- a\n+ b", "SYN-1 x.f\nwords\n+ b\n+ c", "SYN-1 x.f\nwords\n- a\nb", "SYN-1 x\nwords\n- a\n+ b", "SYN-1 x.f y\nwords\n- a\n+ b"} {
		expect.Error(t, expect.Err(parseFaults(text)), text, "was read")
	}
}

func TestPlaces(t *testing.T) {
	for text, want := range map[string]place{
		"gate.half":                {"gate", "half"},
		"adapters/letta.(Type).Do": {"adapters/letta", "(Type).Do"},
		"memproxy.(Track).Earned":  {".", "(Track).Earned"},
		"upkeep/memories.f":        {"upkeep/memories", "f"},
	} {
		if got, err := parsePlace(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestPart(t *testing.T) {
	all := make([]fault, 10)
	for share, want := range map[string]int{"1/1": 10, "1/3": 4, "3/3": 3} {
		expect.Len(t, must.Get(part(all, share))(t), want, share)
	}
	for _, share := range []string{"0/3", "4/3", "day/3", "1/0", "1", ""} {
		expect.Error(t, expect.Err(part(all, share)), share, "was taken")
	}
}

func TestGroups(t *testing.T) {
	got := groups("gate", []proofs.Proof{{Dir: "app", Test: "TestA"}, {Dir: "screen", Test: "TestB"}, {Dir: "gate", Test: "TestC"}, {Dir: "gate", Test: "TestD"}})
	if len(got) != 3 || got[0] != (group{"gate", "^(TestC|TestD)$"}) || got[1].dir != "app" {
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
