package repo

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var (
	codeInDoc = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|")
	// The first constant of a block carries the type; the others repeat it.
	codeInSource = regexp.MustCompile(`(?m)^\s+(\w+)\s+ReasonCode = "([a-z_.]+)"`)
)

// The reason vocabulary is closed: the source and the document list the same.
func TestReasonsAreDocumented(t *testing.T) {
	list := func(re *regexp.Regexp, path ...string) []string {
		src := must.Get(os.ReadFile(filepath.Join(append([]string{root}, path...)...)))(t)
		var out []string
		for _, m := range re.FindAllStringSubmatch(string(src), -1) {
			out = append(out, m[len(m)-1])
		}
		slices.Sort(out)
		return out
	}
	source := list(codeInSource, "reasons.go")
	doc := list(codeInDoc, "docs", "reasons.md")
	if len(source) < 30 || !slices.Equal(source, doc) {
		t.Errorf("reasons.go has\n%v\ndocs/reasons.md has\n%v", source, doc)
	}
}

// Pairs of a reason and a status in one expression.
var (
	statusInDoc = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| ([^|]*) \\|")
	codeFirst   = regexp.MustCompile(`memproxy\.([A-Z]\w+),(?: Status:)? (?:http\.)?(Status\w+|[45]\d\d)\b`)
	statusFirst = regexp.MustCompile(`(?:http\.)?\b(Status\w+|[45]\d\d), (?:Code: )?memproxy\.([A-Z]\w+)`)
)

// The document lists every status that the source gives a reason.
func TestStatusesOfReasonsAreDocumented(t *testing.T) {
	code, documented := map[string]string{}, map[string]string{}
	for _, m := range codeInSource.FindAllStringSubmatch(read(t, "reasons.go"), -1) {
		code[m[1]] = m[2]
	}
	for _, m := range statusInDoc.FindAllStringSubmatch(read(t, "docs/reasons.md"), -1) {
		documented[m[1]] = m[2]
	}
	number := func(status string) string {
		for n := 400; n < 600; n++ {
			if status == "Status"+strings.ReplaceAll(http.StatusText(n), " ", "") {
				return strconv.Itoa(n)
			}
		}
		return status
	}
	found := 0
	goFiles(t, func(file string, src []byte) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		pairs := codeFirst.FindAllStringSubmatch(string(src), -1)
		for _, m := range statusFirst.FindAllStringSubmatch(string(src), -1) {
			pairs = append(pairs, []string{m[0], m[2], m[1]})
		}
		for _, m := range pairs {
			if c := code[m[1]]; c != "" {
				found++
				expect.Equal(t, strings.Contains(documented[c], number(m[2])), true, file, "has a status that docs/reasons.md lacks:", m[0])
			}
		}
	})
	expect.Equal(t, found >= 60, true, found, "statuses: the test does not find them")
}
