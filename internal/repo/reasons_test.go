package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

var (
	codeInDoc = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|")
)

// The reason vocabulary is closed: the source and the document list the same.
func TestReasonsAreDocumented(t *testing.T) {
	list := func(re *regexp.Regexp, path ...string) []string {
		src := must.Get(os.ReadFile(filepath.Join(append([]string{root}, path...)...)))(t)
		var out []string
		for _, m := range re.FindAllStringSubmatch(string(src), -1) {
			out = append(out, m[1])
		}
		slices.Sort(out)
		return out
	}
	// The first constant of a block carries the type; the others repeat it.
	source := list(regexp.MustCompile(`(?m)^\s+\w+\s+ReasonCode = "([a-z_.]+)"`), "reasons.go")
	doc := list(codeInDoc, "docs", "reasons.md")
	if len(source) < 30 || !slices.Equal(source, doc) {
		t.Errorf("reasons.go has\n%v\ndocs/reasons.md has\n%v", source, doc)
	}
}
