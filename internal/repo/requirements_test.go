package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/ring"
)

var (
	provesLine = regexp.MustCompile(`Proves ([A-Z]+-\d+[^.:\n]*)`)
	provesID   = regexp.MustCompile(`[A-Z]+-\d+`)
	docRow     = regexp.MustCompile(`^\| ([A-Z]+-\d+) \| (.*?) \| (.*?) \|$`)
)

// TestRequirementsListTheirTests keeps docs/requirements.md true: its last
// column is what the tests say of themselves in "// Proves …" comments.
func TestRequirementsListTheirTests(t *testing.T) {
	ring.Slow(t, "a generated list; make docs writes it anew")
	proven := map[string][]string{}
	goFiles(t, func(path string, src []byte) {
		if !strings.HasSuffix(path, "_test.go") || !strings.Contains(string(src), "Proves ") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		rel, _ := filepath.Rel(root, path)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Doc == nil || !regexp.MustCompile(`^(Test|Fuzz)`).MatchString(fn.Name.Name) {
				continue
			}
			for _, m := range provesLine.FindAllStringSubmatch(fn.Doc.Text(), -1) {
				for _, id := range provesID.FindAllString(m[1], -1) {
					proven[id] = append(proven[id], filepath.ToSlash(filepath.Dir(rel))+"."+fn.Name.Name)
				}
			}
		}
	})
	path := filepath.Join(root, "docs", "requirements.md")
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(doc), "\n")
	for i, line := range lines {
		m := docRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		tests := slices.Compact(slices.Sorted(slices.Values(proven[m[1]])))
		delete(proven, m[1])
		want := fmt.Sprintf("| %s | %s | %s |", m[1], m[2], strings.Join(tests, ", "))
		if line != want && !*update {
			t.Errorf("docs/requirements.md: run with -update\n have %s\n want %s", line, want)
		}
		lines[i] = want
	}
	for _, id := range slices.Sorted(maps.Keys(proven)) {
		t.Errorf("%v prove %s, which docs/requirements.md does not list", proven[id], id)
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
