package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/config"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func markdown(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, glob := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "e2e/*/README.md", "charts/*/README.md", "examples/*/README.md", "telemetry/audit/interop/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, rel)
		}
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// What the documents point to is there.
func TestLinksLeadSomewhere(t *testing.T) {
	n := 0
	for _, file := range markdown(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			n++
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", file, m[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("%d links: the test does not find them", n)
	}
}

var (
	row      = regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| (.+) \|$`)
	testName = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")
)

// Each attack of the threat model has a test that exists, or says that it has
// none.
func TestThreatModelNamesItsTests(t *testing.T) {
	rows := 0
	for _, m := range row.FindAllStringSubmatch(read(t, "docs/threat-model.md"), -1) {
		attack, shown := m[1], m[3]
		if attack == "attack" || strings.HasPrefix(attack, "---") {
			continue
		}
		rows++
		if strings.HasPrefix(shown, "–") {
			continue
		}
		names := testName.FindAllStringSubmatch(shown, -1)
		if len(names) == 0 {
			t.Errorf("%q names no test; write – where there is none", attack)
		}
		for _, n := range names {
			if !hasTest(t, n[1], n[2]) {
				t.Errorf("%q: there is no %s.%s", attack, n[1], n[2])
			}
		}
	}
	if rows < 30 {
		t.Errorf("%d rows: the test does not find them", rows)
	}
}

func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
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

var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")

// The README's configuration is valid. Whether commands in documents exist is
// held where the commands are.
func TestREADMEIsTrue(t *testing.T) {
	text := read(t, "README.md")
	yamls := 0
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		if m[1] != "yaml" {
			continue
		}
		yamls++
		conf := strings.ReplaceAll(m[2], "<SHA-256 of the key, hex>", strings.Repeat("0", 64))
		if _, err := config.Parse("README.md", []byte(conf), func(string) string { return "" }); err != nil {
			t.Error(err)
		}
	}
	if yamls == 0 {
		t.Error("the test finds no configuration")
	}
}
