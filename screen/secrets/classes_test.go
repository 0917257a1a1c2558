//go:build slow

// Slow: the classes are listed in the tables of their formats alone.

package secrets

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Every class has a case of a hit, and a severity.
func TestEveryClassHasACase(t *testing.T) {
	cases := "\n"
	for _, file := range []string{"credentials.txtar", "personal.txtar"} {
		cases += string(must.Get(os.ReadFile("testdata/" + file))(t))
	}
	all := slices.Collect(maps.Keys(special))
	for _, f := range formats {
		all = append(all, f.class)
	}
	for _, c := range all {
		expect.That(t, strings.Contains(cases, "\n"+string(c)+" ") && c.Severity() != "", "no case for %s, or no severity", c)
	}
}
