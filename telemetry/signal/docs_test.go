package signal_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry/signal"
)

const root = "../.."

// row matches a table row whose first cell is a name in backquotes.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*$")

// rows returns the table rows of a section of the document, by their first cell.
func rows(t *testing.T, doc, heading string) map[string]string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, "\n## "+heading+"\n")
	must.Equal(t, ok, true, "no section", heading)
	section, _, _ := strings.Cut(rest, "\n## ")
	out := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		expect.Equal(t, out[m[1]], "", heading, m[1], "twice")
		out[m[1]] = m[0]
	}
	return out
}

// constant matches a name in names.go.
var constant = regexp.MustCompile(`(?m)^\t(Span|Attr|Metric)\w+\s+= "([^"]+)"`)

// step matches a row of the gate's table of steps.
var step = regexp.MustCompile(`(?m)^\t\{"(gate\.[a-z]+)", `)

// spans are the names of the spans.
func spans(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range step.FindAllStringSubmatch(string(must.Get(os.ReadFile(filepath.Join(root, "gate", "steps.go")))(t)), -1) {
		names = append(names, m[1])
	}
	src := must.Get(os.ReadFile("names.go"))(t)
	for _, m := range constant.FindAllStringSubmatch(string(src), -1) {
		if m[1] == "Span" {
			names = append(names, m[2])
		}
	}
	return names
}

// docs/telemetry.md has every span and every attribute, and of metrics the same text as the
// catalogue.
func TestCatalogueIsDocumented(t *testing.T) {
	b := must.Get(os.ReadFile(filepath.Join(root, "docs", "telemetry.md")))(t)
	want := map[string]map[string]string{"Spans": rows(t, string(b), "Spans"), "Attributes": {}, "Metrics": {}}
	var documented []string
	for name := range want["Spans"] {
		documented = append(documented, strings.TrimSuffix(name, "ROUTE"))
	}
	if all := spans(t); len(all) == 0 || !slices.Equal(slices.Sorted(slices.Values(documented)), slices.Sorted(slices.Values(all))) {
		t.Errorf("the document has the spans\n%s\nthe code has\n%s", documented, all)
	}
	described := rows(t, string(b), "Attributes")
	for _, key := range signal.Attributes() {
		want["Attributes"][key] = cmp.Or(described[key], "a row for "+key)
	}
	for _, m := range signal.Metrics() {
		labels := strings.Join(m.Labels, ", ")
		if labels == "" {
			labels = "–"
		}
		want["Metrics"][m.Prometheus] = fmt.Sprintf("| `%s` | `%s` | %s | %s | %s |", m.Prometheus, m.Name, m.Kind, labels, m.Meaning)
	}
	for heading, want := range want {
		got := rows(t, string(b), heading)
		for name, line := range want {
			expect.Equal(t, got[name], line, heading, "the document has")
		}
		for name := range got {
			expect.Equal(t, want[name] != "", true, heading, name, "is documented and not in the catalogue")
		}
	}
}

// Every other constant of names.go is in the catalogue.
func TestCatalogueIsComplete(t *testing.T) {
	src := must.Get(os.ReadFile("names.go"))(t)
	listed := signal.Attributes()
	for _, m := range signal.Metrics() {
		listed = append(listed, m.Name)
		expect.Equal(t, slices.IsSorted(append([]float64{0}, m.Buckets...)) && (len(m.Buckets) > 0) == (m.Kind == signal.Histogram), true, m.Name, "has the buckets", m.Buckets)
	}
	found := 0
	for _, m := range constant.FindAllStringSubmatch(string(src), -1) {
		if m[1] == "Span" {
			continue
		}
		found++
		// memproxy.filtered is both an attribute and a metric; one entry suffices
		expect.Equal(t, slices.Contains(listed, m[2]), true, m[2], "has a constant and is not in the catalogue")
	}
	expect.Equal(t, found, len(listed))
}

// Names that gate and proxy use are in the catalogue: the exporter would silently drop
// other attributes.
func TestSourcesUseTheCatalogue(t *testing.T) {
	known := map[string]bool{}
	for _, name := range spans(t) {
		known[name] = true
	}
	for _, key := range signal.Attributes() {
		known[key] = true
	}
	span := regexp.MustCompile(`"((?:gate|proxy)\.[a-z_]+)"`)
	key := regexp.MustCompile(`attribute\.\w+\("([^"]+)"`)
	seen := 0
	for _, dir := range []string{"gate", "proxy"} {
		files := must.Get(filepath.Glob(filepath.Join(root, dir, "*.go")))(t, dir)
		must.Equal(t, len(files) != 0, true, dir, files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src := must.Get(os.ReadFile(file))(t)
			for _, re := range []*regexp.Regexp{span, key} {
				for _, m := range re.FindAllStringSubmatch(string(src), -1) {
					if seen++; !known[m[1]] {
						t.Errorf("%s: %s is not in the catalogue", file, m[1])
					}
				}
			}
		}
	}
	expect.Equal(t, seen != 0, true, "no literals found: the test looks for the wrong thing")
}
