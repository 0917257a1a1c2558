//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Two builds of one source in two places are the same, byte for byte, static,
// and stamped with the version. Proves CARD-8.
func TestBuildsAreReproducible(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "a", "copy")
	copySource(t, "..", elsewhere)
	first, second := buildIn(t, ".."), buildIn(t, elsewhere)
	a := must.Get(os.ReadFile(first))(t)
	b := must.Get(os.ReadFile(second))(t)
	expect.That(t, bytes.Equal(a, b), "two builds differ: %x and %x", sha256.Sum256(a), sha256.Sum256(b))
	out, code := run(t, nil, first, "version")
	expect.That(t, code == 0 && strings.HasPrefix(out, "memproxy v9.9.9 (commit "), "version: %q", out)
	file, err := elf.Open(first)
	if err != nil {
		t.Skip("not an ELF system: ", err)
	}
	defer file.Close()
	libs, err := file.ImportedLibraries()
	expect.That(t, err != nil || len(libs) == 0, "the binary wants %v, and the image has no libraries", libs)
}

// buildIn builds with the flags of the Makefile and the Dockerfile.
func buildIn(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "memproxy")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", "-s -w -X main.version=v9.9.9", "-o", out, "./cmd/memproxy")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	must.That(t, err == nil, "%v\n%s", err, text)
	return out
}

func copySource(t *testing.T, from, to string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" || rel == "bin" || rel == "state" {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	}))
}
