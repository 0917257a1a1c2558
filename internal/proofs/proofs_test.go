package proofs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/proofs"
)

func TestRead(t *testing.T) {
	root := t.TempDir()
	for name, src := range map[string]string{
		"a/a_test.go": `package a

// Proves TRL-6, TRL-8: limits hold. Proves CARD-4.
func TestCore(t *testing.T) {}

// Proves TRL-6.
func TestSlow(t *testing.T) { ring.Slow(t, "a process"); work() }

// What helps proves nothing, though it says: Proves TRL-6.
func helper(t *testing.T) {}

// No requirement.
func TestNone(t *testing.T) {}
`,
		"b/c/c_test.go":    "//go:build e2e && !windows\n\npackage c\n\n// Proves TRL-6.\nfunc FuzzReal(f *testing.F) {}\n",
		"b/d_test.go":      "// Words.\n\n//go:build slow && linux\n\npackage b\n\n// Proves TRL-9.\nfunc TestTagged(t *testing.T) {}\n",
		"b/e_test.go":      "//go:build !slow\n\npackage b\n\n// Proves TRL-9.\nfunc TestUntagged(t *testing.T) {}\n",
		".e2e/x/y_test.go": "no Go",
		"b/f.go":           "no Go",
	} {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(src), 0o644))
	}
	got, err := proofs.Read(root)
	want := []proofs.Proof{
		{"CARD-4", "a", "TestCore", proofs.Core}, {"TRL-6", "a", "TestCore", proofs.Core}, {"TRL-8", "a", "TestCore", proofs.Core},
		{"TRL-6", "a", "TestSlow", proofs.Slow},
		{"TRL-9", "b", "TestTagged", proofs.Slow}, {"TRL-9", "b", "TestUntagged", proofs.Core},
		{"TRL-6", "b/c", "FuzzReal", proofs.Real},
	}
	must.Do(t, err, "have")
	expect.List(t, got, want, "have")
}
