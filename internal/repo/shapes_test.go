package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Ceilings of what a reader has to hold in mind at once. Tests are not counted.
const (
	maxMethods  = 25   // of a type, an interface's included
	maxFiles    = 25   // of a package
	maxCommand  = 120  // lines of a file of cmd/memproxy, which reads options and decides nothing
	maxCommands = 1100 // lines of all of these files together
)

func TestTypesPackagesAndCommandsStaySmall(t *testing.T) {
	ring.Long(t, "one file after another")
	methods, sources, lines := map[string]int{}, map[string]int{}, map[string]int{}
	goFiles(t, func(file string, src []byte) {
		rel := must.Get(filepath.Rel(root, file))(t)
		name := filepath.ToSlash(rel)
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution|parser.ParseComments))(t)
		if ast.IsGenerated(parsed) {
			return
		}
		dir := path.Dir(name)
		sources[dir]++
		if strings.HasPrefix(name, "cmd/memproxy/") {
			lines[name] = strings.Count(string(src), "\n")
		}
		for _, d := range parsed.Decls {
			countMethods(d, func(typ string, n int) { methods[dir+"."+typ] += n })
		}
	})
	within(t, "methods", maxMethods, methods)
	within(t, "files", maxFiles, sources)
	all := 0
	for name, n := range lines {
		if all += n; n > maxCommand {
			t.Errorf("%s has %d lines, and may have %d", name, n, maxCommand)
		}
	}
	if len(lines) == 0 || all > maxCommands {
		t.Errorf("%d files of commands have %d lines, and may have %d", len(lines), all, maxCommands)
	}
}

func countMethods(d ast.Decl, add func(typ string, n int)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return
		}
		typ := d.Recv.List[0].Type
		for {
			switch t := typ.(type) {
			case *ast.StarExpr:
				typ = t.X
			case *ast.IndexExpr:
				typ = t.X
			case *ast.IndexListExpr:
				typ = t.X
			case *ast.Ident:
				add(t.Name, 1)
				return
			default:
				return
			}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			typ, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if i, ok := typ.Type.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					add(typ.Name.Name, len(m.Names))
				}
			}
		}
	}
}

// within holds what was counted to a ceiling.
func within(t *testing.T, unit string, most int, found map[string]int) {
	t.Helper()
	for where, n := range found {
		expect.Equal(t, n <= most, true, where, "has", n, unit, "and may have", most)
	}
}
