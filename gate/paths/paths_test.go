package paths_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/gate/paths"
	"github.com/memproxy/memproxy/internal/expect"
)

// Each way of spelling a path that servers read differently is named, and the advice is one
// that helps: such a path is not let through by passthrough either. Proves EDGE-18.
func TestPaths(t *testing.T) {
	const (
		dots, encoded, marks, slashes = "a segment that is a dot or two", "percent-encoded characters", "a backslash or a semicolon", "two slashes in a row"

		other, pass = "servers may read differently, so passthrough does not let it through either: send it in its plain form", "list it as passthrough"
	)
	match := func(path string) bool { return strings.Trim(path, "/") == "memory" }
	for in, want := range map[string][2]string{
		"/":                 {"", pass},
		"/custom/a.b/..c/":  {"", pass},
		"/memory/":          {"", "it knows the path with different slashes"},
		"/v1/memory":        {"", "it knows the path without its first segment"},
		"//memory":          {slashes, "it knows the path with different slashes"},
		"/v1//memory":       {slashes, "it knows the path without its first segment"},
		"//custom":          {slashes, other},
		"":                  {"no slash at its start", other},
		"/custom/../memory": {dots, other},
		"/./memory":         {dots, other},
		"/%2E%2e/memory":    {dots, other},
		"/memory/../reset":  {dots, other},
		"/%6demory":         {encoded, other},
		"/memory%2F":        {encoded, other},
		"/v1%2Fmemory":      {encoded, other},
		"/memory/a%2Fb":     {encoded, other},
		"/memory%":          {encoded, other},
		"/memory;a=/../b":   {marks, other},
		`/custom\..\memory`: {marks, other},
		"/custom;x/memory":  {marks, other},
	} {
		expect.Equal(t, paths.Flaw(in), want[0], in)
		expect.Text(t, paths.Hint(in, match), in).Has(want[1])
	}
}
