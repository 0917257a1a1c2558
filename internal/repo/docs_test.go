package repo

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/proofs"
	"github.com/memproxy/memproxy/internal/ring"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
	return string(b)
}

func markdown(t *testing.T) []string {
	t.Helper()
	return must.Get(proofs.Documents(root))(t)
}

var link = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)

// anchors are the targets that the headings of a document are.
func anchors(text string) (all []string) {
	for _, h := range heading.FindAllString(text, -1) {
		all = append(all, "#"+strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case c == '-', c == '_', unicode.IsLetter(c), unicode.IsDigit(c):
				return unicode.ToLower(c)
			}
			return -1
		}, strings.TrimLeft(h, "# ")))
	}
	return all
}

// What the documents point to is there: the file, and the section in it.
func TestLinksLeadSomewhere(t *testing.T) {
	n := 0
	for _, file := range markdown(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			n++
			to := file
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", file, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(read(t, to)), m[2]) {
				t.Errorf("%s: %s has no section %s", file, to, m[2])
			}
		}
	}
	expect.Equal(t, n >= 10, true, n, "links: the test does not find them")
}

var (
	row      = regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| (.+) \|$`)
	testName = regexp.MustCompile("`([a-z0-9/]+\\.(?:Test|Fuzz)[A-Za-z0-9]+)`")
)

// Every test that a document names exists. Each attack of the threat model and
// each control of the matrix for security teams names one, or says with – that
// it has none.
// Proves CARD-10: what security teams are told is shown by tests.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	ring.Slow(t, "a test that gets another name is no fault of the program")
	tests := map[string]bool{}
	must.Do(t, proofs.Files(root, func(name string, _ *token.FileSet, file *ast.File) {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				tests[path.Dir(name)+"."+fn.Name.Name] = true
			}
		}
	}))
	for _, file := range markdown(t) {
		if file == "CHANGELOG.md" {
			continue // what was true then
		}
		for _, m := range testName.FindAllStringSubmatch(read(t, file), -1) {
			expect.Equal(t, tests[m[1]], true, file, "there is no", m[1])
		}
	}
	_, matrix, _ := strings.Cut(read(t, "docs/security-team.md"), "\n## Control matrix\n")
	for name, text := range map[string]string{"threat model": read(t, "docs/threat-model.md"), "control matrix": matrix} {
		rows := 0
		for _, m := range row.FindAllStringSubmatch(text, -1) {
			what, shown := m[1], m[3]
			if what == "attack" || what == "asks for" || strings.HasPrefix(what, "---") {
				continue
			}
			rows++
			if !testName.MatchString(shown) && !strings.HasPrefix(shown, "–") {
				t.Errorf("%s: %q names no test; write – where there is none", name, what)
			}
		}
		expect.Equal(t, rows >= 30, true, name, rows, "rows: the test does not find them")
	}
}

var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")

// Configurations in documents are valid, with a backend where they show none. Whether
// commands in documents exist is held where the commands are.
func TestConfigurationsInDocuments(t *testing.T) {
	fill := strings.NewReplacer("<SHA-256 of the key, hex>", strings.Repeat("0", 64), "<SHA-256 of the token>", strings.Repeat("0", 64), "…", strings.Repeat("0", 64))
	yamls := 0
	for _, file := range markdown(t) {
		for _, m := range block.FindAllStringSubmatch(read(t, file), -1) {
			if m[1] != "yaml" || file == "docs/kubernetes.md" || strings.HasPrefix(m[2], "# bundle.yaml") || strings.HasPrefix(m[2], "builtin:") {
				continue
			}
			yamls++
			conf := fill.Replace(m[2])
			if !strings.Contains(conf, "backends:") {
				conf += "backends:\n  - {name: mem0, kind: mem0, listen: 127.0.0.1:8081, upstream: http://127.0.0.1:8000}\n"
			}
			if _, err := config.Parse(file, []byte(conf), func(string) string { return "set to some value" }); err != nil && !strings.Contains(err.Error(), "no such file") {
				t.Errorf("%s\n%s", err, conf)
			}
		}
	}
	expect.Equal(t, yamls >= 10, true, yamls, "the test does not find the configurations")
}

var pin = regexp.MustCompile(`(?m)^\s*"?([@\w/.-]+?)"?(?:==|": ")([\d][\w.]*)`)

// The table of clients, which a run of them writes, has the versions that are run.
func TestClientsHaveThePinnedVersions(t *testing.T) {
	pinned := map[string]bool{}
	for _, glob := range []string{"e2e/*/requirements*.txt", "e2e/*/package.json", "e2e/*/sdk/package.json"} {
		files := must.Get(filepath.Glob(filepath.Join(root, glob)))(t, glob)
		must.Equal(t, files != nil, true, glob, files)
		for _, file := range files {
			rel, _ := filepath.Rel(root, file)
			for _, m := range pin.FindAllStringSubmatch(read(t, rel), -1) {
				pinned[m[1]+" "+m[2]] = true
			}
		}
	}
	_, rest, _ := strings.Cut(read(t, "docs/clients.md"), "<!-- clients -->\n")
	table, _, _ := strings.Cut(rest, "<!-- end -->")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	must.Equal(t, len(rows) >= 15, true, len(rows), "rows: the test does not find them")
	for _, row := range rows[2:] {
		for _, client := range strings.Split(strings.TrimSpace(strings.Split(row, "|")[2]), ", ") {
			expect.Equal(t, pinned[client], true, "docs/clients.md: no e2e/ file pins", client)
		}
	}
}
