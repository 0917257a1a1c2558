package repo

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/proofs"
)

// inside are the packages whose core tests may be in the package's own name: app, whose
// tests of the whole process reach its parts (export_test.go), commands and tools, which
// nothing imports, and nested modules, which the core does not compile.
var inside = []string{
	"app", "bench/screen", "charts/test", "examples", "internal/freeport", "internal/mutate", "internal/release", "internal/repo", "internal/ring", "internal/sbom",
	"telemetry/audit/interop",
}

// A core test that is in its package's own name has the package, and whatever imports it,
// compiled once more.
func TestCoreTestsAreOutsideOfTheirPackage(t *testing.T) {
	used := map[string]bool{}
	goFiles(t, func(file string, src []byte) {
		name := filepath.ToSlash(must.Get(filepath.Rel(root, file))(t))
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, src, parser.PackageClauseOnly|parser.ParseComments))(t)
		dir := path.Dir(name)
		if proofs.FileRing(parsed) != proofs.Core || strings.HasSuffix(parsed.Name.Name, "_test") {
			return
		}
		if used[dir] = true; !slices.Contains(inside, dir) {
			t.Errorf("%s: package %s_test, or the slow ring: a core test in the package's own name compiles the package once more", name, parsed.Name.Name)
		}
	})
	for _, dir := range inside {
		expect.Equal(t, used[dir], true, dir, "is an exception that nothing needs")
	}
}
