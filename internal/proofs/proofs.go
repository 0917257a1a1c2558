// Package proofs reads from the sources of tests which of them say that they
// prove which requirement ("// Proves TRL-6"), and in which ring each runs.
package proofs

import (
	"cmp"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Ring is where a test runs; CONTRIBUTING.md has the table.
type Ring string

// The rings that a test's source tells apart.
const (
	Core Ring = "core" // go test ./...
	Slow Ring = "slow" // -tags slow
	Real Ring = "real" // -tags e2e
)

// Proof is a test that says that it proves a requirement.
type Proof struct {
	Requirement string
	Dir         string // of its package, under the module's root
	Test        string
	Ring        Ring
}

// Name is the package directory and the test, as documents write it.
func (p Proof) Name() string { return p.Dir + "." + p.Test }

var (
	sentence = regexp.MustCompile(`Proves ([A-Z]+-\d+[^.:\n]*)`)
	id       = regexp.MustCompile(`[A-Z]+-\d+`)
	isTest   = regexp.MustCompile(`^(Test|Fuzz)`)
)

// Read returns what the tests under root say, each once, sorted by package and
// name.
func Read(root string) ([]Proof, error) {
	var out []Proof
	err := Files(root, func(name string, _ *token.FileSet, file *ast.File) {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Doc == nil || fn.Recv != nil || !isTest.MatchString(fn.Name.Name) {
				continue
			}
			ring := FileRing(file)
			if ring == Core && IsSlow(fn.Body) {
				ring = Slow
			}
			for _, m := range sentence.FindAllStringSubmatch(fn.Doc.Text(), -1) {
				for _, req := range id.FindAllString(m[1], -1) {
					out = append(out, Proof{req, filepath.ToSlash(filepath.Dir(name)), fn.Name.Name, ring})
				}
			}
		}
	})
	slices.SortFunc(out, func(a, b Proof) int {
		return cmp.Or(strings.Compare(a.Name(), b.Name()), strings.Compare(a.Requirement, b.Requirement))
	})
	return slices.Compact(out), err
}

// Files parses every test file under root, nested modules included. Names are
// relative to root.
func Files(root string, visit func(name string, fset *token.FileSet, file *ast.File)) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); len(name) > 2 && name[0] == '.' || name == "node_modules" || name == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(name), fset, file)
		return nil
	})
}

// FileRing is the ring that a file's build constraint asks for.
func FileRing(file *ast.File) Ring {
	for _, group := range file.Comments {
		if group.Pos() >= file.Package {
			break
		}
		for _, c := range group.List {
			x, err := constraint.Parse(c.Text)
			if err != nil {
				continue
			}
			switch {
			case asks(x, "e2e"), asks(x, "e2ekube"):
				return Real
			case asks(x, "slow"):
				return Slow
			}
		}
	}
	return Core
}

// asks reports whether a constraint names tag, and not as !tag.
func asks(x constraint.Expr, tag string) bool {
	switch x := x.(type) {
	case *constraint.AndExpr:
		return asks(x.X, tag) || asks(x.Y, tag)
	case *constraint.OrExpr:
		return asks(x.X, tag) || asks(x.Y, tag)
	case *constraint.TagExpr:
		return x.Tag == tag
	}
	return false
}

// IsSlow reports whether a function begins with ring.Slow, so that the core
// skips it.
func IsSlow(body *ast.BlockStmt) bool {
	if body == nil || len(body.List) == 0 {
		return false
	}
	stmt, ok := body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := stmt.X.(*ast.CallExpr)
	return ok && IsCall(call, "ring", "Slow")
}

// IsCall reports whether call is pkg.name(…).
func IsCall(call *ast.CallExpr, pkg, name string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}
