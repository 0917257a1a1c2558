package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// place names a declaration at the top level of a package: Func, (Type).Method,
// or the name of a variable, constant or type. Moving it to another file of its
// package changes nothing.
type place struct{ Dir, Name string }

// rootPackage is the package in the module's root, whose directory has no name.
const rootPackage = "memproxy"

// parsePlace reads gate.half, ledger.(Ledger).Approve or
// memories.validateBatch.
func parsePlace(s string) (place, error) {
	slash := strings.LastIndexByte(s, '/') + 1
	last, name, ok := strings.Cut(s[slash:], ".")
	if !ok || last == "" || name == "" || strings.ContainsAny(s, " \t") {
		return place{}, fmt.Errorf("%q is no declaration, such as gate.half or ledger.(Ledger).Approve", s)
	}
	dir := s[:slash] + last
	if dir == rootPackage {
		dir = "."
	}
	return place{dir, name}, nil
}

func (p place) String() string {
	if p.Dir == "." {
		return rootPackage + "." + p.Name
	}
	return p.Dir + "." + p.Name
}

// found is where a declaration is.
type found struct {
	file     string // under root
	src      string
	from, to int // the declaration without its comment, in src
}

// find looks for p in the module at root. It must be declared exactly once, so
// that what is written for one platform only has another name.
func (p place) find(root string) (found, error) {
	files, err := filepath.Glob(filepath.Join(root, p.Dir, "*.go"))
	if err != nil {
		return found{}, err
	}
	var out []found
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return found{}, err
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
		if err != nil {
			return found{}, err
		}
		for _, d := range parsed.Decls {
			if n := p.in(d); n != nil {
				out = append(out, found{file, string(src), fset.Position(n.Pos()).Offset, fset.Position(n.End()).Offset})
			}
		}
	}
	switch len(out) {
	case 0:
		return found{}, fmt.Errorf("there is no %s", p)
	case 1:
		return out[0], nil
	}
	return found{}, fmt.Errorf("%s is declared in %s and in %s", p, out[0].file, out[1].file)
}

// in returns the part of d that declares p, nil if none does.
func (p place) in(d ast.Decl) ast.Node {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if funcName(d) == p.Name {
			return d
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.Name == p.Name {
					return spec
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.Name == p.Name {
						return spec
					}
				}
			}
		}
	}
	return nil
}

// funcName is Func, or (Type).Method without a star or type parameters.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
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
			return "(" + t.Name + ")." + d.Name.Name
		default:
			return ""
		}
	}
}

// with is the file with f in the place of its text, which still parses.
func (at found) with(f fault) (string, error) {
	decl, err := f.apply(at.src[at.from:at.to])
	if err != nil {
		return "", err
	}
	out := at.src[:at.from] + decl + at.src[at.to:]
	_, err = parser.ParseFile(token.NewFileSet(), at.file, out, parser.SkipObjectResolution)
	return out, err
}
