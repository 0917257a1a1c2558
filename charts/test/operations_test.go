package charttest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const runbooks = "https://github.com/memproxy/memproxy/blob/main/docs/operations.md#"

func doc(t *testing.T, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", name)))(t)
	return string(b)
}

// Each alert leads to what it means and what to do, and nothing is explained
// that does not fire. Proves EDGE-18.
func TestRunbooks(t *testing.T) {
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (Memproxy\w+)\n([^\n#]+)`).FindAllStringSubmatch(doc(t, "operations.md"), -1) {
		there[m[1]] = true
	}
	for _, a := range alerts(t) {
		expect.Equal(t, a.Annotations["runbook_url"], runbooks+strings.ToLower(a.Alert), a.Alert, "leads to")
		expect.Equal(t, there[a.Alert], true, "docs/operations.md does not say what", a.Alert, "means")
		delete(there, a.Alert)
	}
	for name := range there {
		t.Errorf("docs/operations.md explains %s, which does not fire", name)
	}
}

// The documents name the chart's ports, and forward to the one where the review
// API is. Proves EDGE-18.
func TestDocumentsNameTheChartsPorts(t *testing.T) {
	b := must.Get(os.ReadFile(filepath.Join(chartDir, "values.yaml")))(t)
	var values struct {
		Sidecar struct {
			AdminPort  int `yaml:"adminPort"`
			ReviewPort int `yaml:"reviewPort"`
		} `yaml:"sidecar"`
	}
	must.Do(t, yaml.Unmarshal(b, &values))
	admin, review := fmt.Sprint(values.Sidecar.AdminPort), fmt.Sprint(values.Sidecar.ReviewPort)
	port := regexp.MustCompile(`\b99\d\d\b`)
	for _, name := range []string{"kubernetes.md", "operations.md"} {
		text := doc(t, name)
		for _, want := range []string{admin, review} {
			expect.Text(t, text, "docs/", name, "does not name port").Has(want)
		}
		for _, got := range port.FindAllString(text, -1) {
			if got != admin && got != review {
				t.Errorf("docs/%s names port %s, which the chart has not", name, got)
			}
		}
		for _, m := range regexp.MustCompile("port-forward [^`\n]* (\\d+)`").FindAllStringSubmatch(text, -1) {
			expect.Equal(t, m[1], review, "docs/", name, "forwards to", "the review API is at")
		}
	}
}
