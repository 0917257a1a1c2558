package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/proofs"
	"github.com/memproxy/memproxy/internal/ring"
)

// TestCoreWaitsForNoClock keeps the core quick and the same on every machine: no
// calls of time.Sleep, no comparisons with time.Now or time.Since. A test uses
// testing/synctest, a clock of its own or a channel; one that crosses a process, a
// socket or a goroutine that it cannot join uses ring.Until; one whose matter is real
// time begins with ring.Slow.
func TestCoreWaitsForNoClock(t *testing.T) {
	ring.Long(t, "one file after another")
	pkgs := map[string][]*function{}
	files(t, func(name string, fset *token.FileSet, file *ast.File) {
		core := proofs.FileRing(file) == proofs.Core
		for _, d := range file.Decls {
			pkgs[path.Dir(name)] = append(pkgs[path.Dir(name)], readFunction(name, fset, d, core))
		}
	})
	found := map[string][]string{}
	for dir, fns := range pkgs {
		excuse(fns)
		for _, f := range fns {
			if !f.excused {
				found[dir] = append(found[dir], f.waits...)
			}
		}
	}
	ratchet(t, "waits for the real clock in core tests", nil, found)
}

// function is one declaration of a test file. What is excused may wait: the core
// does not run it, or runs it in a bubble of synctest, or it is a benchmark.
type function struct {
	name    string
	entry   bool // go test calls it
	excused bool
	waits   []string        // where, outside of excused literals
	names   map[string]bool // what it refers to, outside of excused literals
	inside  map[string]bool // and inside
}

func readFunction(file string, fset *token.FileSet, d ast.Decl, core bool) *function {
	f := &function{excused: !core, names: map[string]bool{}, inside: map[string]bool{}}
	at := func(n ast.Node) string { return place(file, fset, n) }
	fn, ok := d.(*ast.FuncDecl)
	if !ok {
		f.read(d, at, false)
		return f
	}
	f.name = fn.Name.Name
	f.entry = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`).MatchString(f.name)
	f.excused = f.excused || proofs.IsSlow(fn.Body) || opensBubble(fn.Body) || strings.HasPrefix(f.name, "Benchmark")
	if fn.Body != nil {
		f.read(fn.Body, at, false)
	}
	return f
}

// opensBubble reports whether a function runs its steps with a helper that is
// called inBubble, as proxy's, which calls synctest.Test.
func opensBubble(body *ast.BlockStmt) bool {
	found := false
	if body != nil {
		ast.Inspect(body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			found = found || ok && callee(call) == "inBubble"
			return !found
		})
	}
	return found
}

// read notes what is below n.
func (f *function) read(n ast.Node, at func(ast.Node) string, excused bool) {
	ast.Inspect(n, func(m ast.Node) bool {
		if m == n {
			return true
		}
		switch m := m.(type) {
		case *ast.Ident:
			if excused {
				f.inside[m.Name] = true
			} else {
				f.names[m.Name] = true
			}
		case *ast.FuncLit:
			if !excused && proofs.IsSlow(m.Body) {
				f.read(m, at, true)
				return false
			}
		case *ast.CallExpr:
			if !excused && proofs.IsCall(m, "synctest", "Test") {
				f.read(m, at, true)
				return false
			}
			if !excused && waitsFor(m) {
				f.waits = append(f.waits, at(m))
			}
		}
		return true
	})
}

// excuse excuses what only excused code of the package refers to.
func excuse(fns []*function) {
	for again := true; again; {
		again = false
		used, excused := map[string]bool{}, map[string]bool{}
		for _, f := range fns {
			to := used
			if f.excused {
				to = excused
			}
			maps.Copy(to, f.names)
			maps.Copy(excused, f.inside)
		}
		for _, f := range fns {
			if !f.excused && !f.entry && f.name != "" && excused[f.name] && !used[f.name] {
				f.excused, again = true, true
			}
		}
	}
}

// waitsFor reports whether call sleeps, measures a duration, or compares a time
// with the present.
func waitsFor(call *ast.CallExpr) bool {
	for _, name := range []string{"Sleep", "Since", "Until"} {
		if proofs.IsCall(call, "time", name) {
			return true
		}
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || proofs.IsCall(call, "time", sel.Sel.Name) {
		return false
	}
	switch sel.Sel.Name {
	case "After", "Before", "Compare", "Sub":
		return asksTheClock(call)
	}
	return false
}

func asksTheClock(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && proofs.IsCall(call, "time", "Now") {
			found = true
		}
		return !found
	})
	return found
}

// callee is the last name of what is called.
func callee(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// parsedFile is a test file with its name.
type parsedFile struct {
	name string
	fset *token.FileSet
	file *ast.File
}

// parsedFiles parses all test files, once for all tests.
var parsedFiles = sync.OnceValues(func() (all []parsedFile, err error) {
	err = proofs.Files(root, func(name string, fset *token.FileSet, file *ast.File) {
		all = append(all, parsedFile{name, fset, file})
	})
	return all, err
})

// files visits every parsed test file.
func files(t *testing.T, visit func(name string, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	for _, f := range must.Get(parsedFiles())(t) {
		visit(f.name, f.fset, f.file)
	}
}

func place(name string, fset *token.FileSet, n ast.Node) string {
	return fmt.Sprintf("%s:%d", name, fset.Position(n.Pos()).Line)
}

// TestNoSeedFromAClock: tests of all rings play the same cases every day. A
// search with other seeds takes them from the environment (make search).
func TestNoSeedFromAClock(t *testing.T) {
	ring.Long(t, "one file after another")
	unseeded := map[string][]string{}
	files(t, func(name string, fset *token.FileSet, file *ast.File) {
		generators := false
		for _, imp := range file.Imports {
			generators = generators || strings.HasPrefix(imp.Path.Value, `"math/rand`)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				switch sel, ok := n.Fun.(*ast.SelectorExpr); {
				case callee(n) == "YearDay":
					t.Errorf("%s: the day chooses what is played", place(name, fset, n))
				case strings.HasPrefix(callee(n), "NewPCG"), strings.HasPrefix(callee(n), "NewChaCha8"), strings.HasPrefix(callee(n), "NewSource"), callee(n) == "Seed":
					expect.Equal(t, asksTheClock(n), false, place(name, fset, n), "a seed from the clock")
				case ok && generators && proofs.IsCall(n, "rand", sel.Sel.Name) && !strings.HasPrefix(sel.Sel.Name, "New"):
					unseeded[path.Dir(name)] = append(unseeded[path.Dir(name)], place(name, fset, n))
				}
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					if id, ok := to.(*ast.Ident); ok && strings.Contains(strings.ToLower(id.Name), "seed") && asksTheClock(n) {
						t.Errorf("%s: a seed from the clock", place(name, fset, n))
					}
				}
			case *ast.ValueSpec:
				for _, id := range n.Names {
					if strings.Contains(strings.ToLower(id.Name), "seed") && asksTheClock(n) {
						t.Errorf("%s: a seed from the clock", place(name, fset, n))
					}
				}
			}
			return true
		})
	})
	ratchet(t, "has another seed each time; use rand.New(rand.NewPCG(1, 2))", map[string]int{"gate": 2}, unseeded)
}

var (
	stages   = regexp.MustCompile(`(?m)^for target in ([^;]*); do`)
	rotating = regexp.MustCompile(`\bdate\b|\bRANDOM\b|\bEPOCH(SECONDS|REALTIME)\b|\$\(SEED\)|_SEED=`)
)

// What CI runs takes no seed from the clock either.
func TestCIRunsTheSameEveryDay(t *testing.T) {
	ci, makefile := read(t, ".ci/run"), read(t, "Makefile")
	m := stages.FindStringSubmatch(ci)
	must.Equal(t, m != nil, true, ".ci/run: the test does not find its targets")
	for _, l := range rotating.FindAllString(ci, -1) {
		t.Errorf(".ci/run: %s", l)
	}
	todo, done := strings.Fields(m[1]), map[string]bool{}
	for len(todo) > 0 {
		target := todo[0]
		todo = todo[1:]
		if done[target] {
			continue
		}
		done[target] = true
		rule := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:([^#\n]*).*\n((?:\t.*\n)*)`).FindStringSubmatch(makefile)
		if rule == nil {
			t.Errorf("Makefile: there is no target %s", target)
			continue
		}
		todo = append(todo, strings.Fields(rule[1])...)
		for _, l := range rotating.FindAllString(rule[2], -1) {
			t.Errorf("Makefile: %s, which CI runs: %s", target, l)
		}
	}
}

// Of a file, the waits that count are those of tests that the core runs on the
// real clock, and of what these use.
func TestWhatWaits(t *testing.T) {
	const src = `package x

func TestSleeps(t *testing.T)   { time.Sleep(1) }
func TestCompares(t *testing.T) { _ = time.Now().After(end); _ = end.Before(time.Now().Add(1)); _ = time.Since(start) }
func TestPolls(t *testing.T)    { poll() }
func TestSlow(t *testing.T)     { ring.Slow(t, "why"); time.Sleep(1); onlySlow() }
func TestFake(t *testing.T)     { synctest.Test(t, func(t *testing.T) { time.Sleep(1); onlyFake() }) }
func TestNamed(t *testing.T)    { synctest.Test(t, named) }
func TestPart(t *testing.T)     { t.Run("", func(t *testing.T) { ring.Slow(t, "why"); time.Sleep(1) }); time.Sleep(1) }
func TestClock(t *testing.T)    { _ = clock.Now().After(end); ring.Until(t, "", nil); _ = time.After(1) }
func BenchmarkX(b *testing.B)   { _ = time.Since(start) }
func poll()                     { time.Sleep(1) }
func onlySlow()                 { deeper(); poll() }
func deeper()                   { time.Sleep(1) }
func onlyFake()                 { time.Sleep(1) }
func named(t *testing.T)        { time.Sleep(1) }
func unused()                   { time.Sleep(1) }
`
	fset := token.NewFileSet()
	file := must.Get(parser.ParseFile(fset, "x_test.go", src, parser.SkipObjectResolution))(t)
	var fns []*function
	for _, d := range file.Decls {
		fns = append(fns, readFunction("x_test.go", fset, d, true))
	}
	excuse(fns)
	got := map[string]int{}
	for _, f := range fns {
		if n := len(f.waits); n > 0 && !f.excused {
			got[f.name] = n
		}
	}
	expect.Map(t, got, map[string]int{"TestSleeps": 1, "TestCompares": 3, "TestPart": 1, "poll": 1, "unused": 1})
}
