// Package routetabletest has the checks of paths that the tests of all route tables share.
package routetabletest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// Table is an adapter's table.
type Table interface {
	Route(memproxy.Request) (memproxy.Route, bool)
}

// Unknown checks that no row is found for the requests, "METHOD /path".
func Unknown(t *testing.T, table Table, requests ...string) {
	t.Helper()
	for _, at := range requests {
		method, path, _ := strings.Cut(at, " ")
		if r, ok := table.Route(memproxy.Request{Method: method, EscapedPath: path}); ok {
			t.Errorf("%s is %s (%s), want no row", at, r.ID, r.Kind)
		}
	}
}

// Respelled returns other spellings of a path. open is the path of a row that takes every
// path below it.
func Respelled(path, open string) []string {
	end := strings.Index(path[1:]+"/", "/") + 1
	first, rest := path[:end], strings.TrimPrefix(path[end:], "/")
	return []string{
		"/" + path, first + "//" + rest, path + "//", // doubled slashes
		fmt.Sprintf("/%%%x%s", path[1], path[2:]), // an encoded letter
		first + "%2f" + rest, strings.TrimSuffix(path, "/") + "%2F", path + "%0a",
		strings.ToUpper(path), path[1:], "http://h" + path, path + ";x=1",
		"/." + path, "/x/.." + path, "/x/%2e%2e" + path, open + "/x%2f..%2f.." + path, open + "/%252e%252e" + path,
		strings.ReplaceAll(path, "/", `\`), open + "/%5c.." + path,
	}
}
