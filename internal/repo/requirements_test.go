package repo

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/proofs"
	"github.com/memproxy/memproxy/internal/ring"
)

var docRow = regexp.MustCompile(`^\| ([A-Z]+-\d+) \| (.*?) \| (.*?) ?\|$`)

const proofsHead = `# What the tests prove

Written by ` + "`make docs`" + ` from the ` + "`// Proves …`" + ` comments of the tests, for each
requirement of [requirements.md](requirements.md). A test is in the core
(` + "`go test ./...`" + `) unless it says (slow), ` + "`make slow`" + `, or (real), ` + "`make e2e`" + `.
`

// TestRequirementsListTheirTests keeps two documents true: the last column of
// docs/requirements.md is the rings in which a requirement is shown, and
// docs/proofs.md lists the tests, one a line, so that a new test is one new
// line.
func TestRequirementsListTheirTests(t *testing.T) {
	ring.Slow(t, "a generated list; make docs writes it anew")
	all := must.Get(proofs.Read(root))(t)
	proven := map[string][]proofs.Proof{}
	for _, p := range all {
		proven[p.Requirement] = append(proven[p.Requirement], p)
	}
	lines := strings.Split(read(t, "docs/requirements.md"), "\n")
	list := proofsHead
	for i, line := range lines {
		m := docRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id, tests := m[1], proven[m[1]]
		delete(proven, id)
		cell := ""
		if len(tests) > 0 {
			cell = fmt.Sprintf("[%s](proofs.md#%s) ", ringsOf(tests), strings.ToLower(id))
			list += "\n## " + id + "\n"
		}
		lines[i] = fmt.Sprintf("| %s | %s | %s|", id, m[2], cell)
		for _, p := range tests {
			list += "- `" + p.Name() + "`"
			if p.Ring != proofs.Core {
				list += " (" + string(p.Ring) + ")"
			}
			list += "\n"
		}
	}
	for _, id := range slices.Sorted(maps.Keys(proven)) {
		t.Errorf("%v prove %s, which docs/requirements.md does not list", proven[id], id)
	}
	keep(t, "docs/requirements.md", strings.Join(lines, "\n"))
	keep(t, "docs/proofs.md", list)
}

// ringsOf is the rings in which tests run, from the quickest on.
func ringsOf(tests []proofs.Proof) string {
	var out []string
	for _, r := range []proofs.Ring{proofs.Core, proofs.Slow, proofs.Real} {
		if slices.ContainsFunc(tests, func(p proofs.Proof) bool { return p.Ring == r }) {
			out = append(out, string(r))
		}
	}
	return strings.Join(out, ", ")
}

// keep writes a generated document with -update, and otherwise compares it.
func keep(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join(root, name)
	if *update {
		must.Do(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	have, wanted := strings.Split(read(t, name), "\n"), strings.Split(want, "\n")
	for _, line := range have {
		expect.Equal(t, slices.Contains(wanted, line), true, name, "run make docs", line, "is no longer true")
	}
	for _, line := range wanted {
		expect.Equal(t, slices.Contains(have, line), true, name, "run make docs", line, "is missing")
	}
	if !t.Failed() && !slices.Equal(have, wanted) {
		t.Errorf("%s: run make docs: its lines are in another order", name)
	}
}
