package repo

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var update = flag.Bool("update", false, "write the dependency list anew")

// TestDependenciesAreReviewed compares the packages' modules that the binary
// is really built from with the committed list, so that a new one shows in a
// diff. `go test ./internal/repo -run Dependencies -update` writes it.
func TestDependenciesAreReviewed(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./cmd/memproxy")
	cmd.Dir = root
	out := must.Get(cmd.Output())(t)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	lines = slices.DeleteFunc(lines, func(s string) bool {
		s = strings.TrimSpace(s)
		return s == "" || s == module
	})
	slices.Sort(lines)
	got := strings.Join(slices.Compact(lines), "\n") + "\n"
	path := filepath.Join(root, "docs", "dependencies.txt")
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	expect.Equal(t, got, string(must.Get(os.ReadFile(path))(t)), "the binary's modules changed; review them and run with -update")
}
