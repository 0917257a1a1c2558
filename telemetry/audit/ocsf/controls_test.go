package ocsf

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each row of the control matrix names tests, and each of them exists.
// Proves CARD-10.
func TestControlMatrixNamesItsTests(t *testing.T) {
	const root = "../../.."
	doc, err := os.ReadFile(filepath.Join(root, "docs", "security-team.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, matrix, found := strings.Cut(string(doc), "\n## Control matrix\n")
	if !found {
		t.Fatal("the document has no control matrix")
	}
	row := regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| (.+) \|$`)
	name := regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")
	rows := 0
	for _, m := range row.FindAllStringSubmatch(matrix, -1) {
		if m[1] == "asks for" {
			continue
		}
		rows++
		tests := name.FindAllStringSubmatch(m[3], -1)
		if len(tests) == 0 {
			t.Errorf("%q names no test", m[1])
		}
		for _, n := range tests {
			if !hasTest(t, filepath.Join(root, n[1]), n[2]) {
				t.Errorf("%q: there is no %s.%s", m[1], n[1], n[2])
			}
		}
	}
	if rows < 30 {
		t.Errorf("%d rows: the test does not find them", rows)
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
