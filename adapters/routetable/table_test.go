package routetable_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/internal/expect"
)

const rows = `
GET     /v1/things/              list     recall  opaque
GET     /v1/things/{id}/         get      recall  opaque
GET     /v1/things/{id}/history/ history  recall  opaque
GET     /v1/things/count/        count    recall  opaque
DELETE  /v1/things/{id}/         delete   forget  opaque
*       /v1/things/{id}/         other    other   opaque
POST    /v1/{kind}/{id}/         add      learn   opaque
# Administrators.
*       /admin/{rest...}         admin    admin   opaque  steering
GET     /                        root     other   opaque  pass public
`

func build(opt routetable.Options) *routetable.Table { return routetable.Parse(rows, opt) }

var (
	either = routetable.Options{Alias: map[string]string{"latest": "v1"}}
	strict = routetable.Options{LastSlash: true}
)

// Proves EDGE-3: an ambiguous path matches no row.
func TestMatch(t *testing.T) {
	for _, c := range []struct{ method, path, want, wantStrict string }{
		{"GET", "/v1/things/", "list", "list"},
		{"GET", "/v1/things", "list", ""},
		{"HEAD", "/v1/things/", "list", "list"},
		{"GET", "/latest/things/", "list", ""},
		{"GET", "/l%61test/things/", "", ""},
		{"GET", "/v1/things/a/", "get a", "get a"},
		{"GET", "/v1/things/a%2Fb/", "get a/b", "get a/b"},
		{"GET", "/v1/things/a%2Fhistory/", "", ""}, // decoded, it is a history
		{"GET", "/v1/things/count/", "count", "count"},
		{"GET", "/v1/things/c%6funt/", "", ""},
		{"GET", "/v1/things/c%256funt/", "", ""},
		{"PATCH", "/v1/things/a/", "other a", "other a"},
		{"POST", "/v1/others/a/", "add a others", "add a others"},
		{"POST", "/v1/things/a/", "other a", "other a"}, // a literal takes precedence over a method
		{"GET", "/v1/things//", "", ""},
		{"GET", "/v1//things/", "", ""},
		{"GET", "/v1/things/./", "", ""},
		{"GET", "/v1/things/%2e%2e/", "", ""},
		{"GET", "/v1/things/%252e%252e/", "", ""},
		{"GET", "/v1/things/a;b/", "", ""},
		{"GET", `/v1/things/a\b/`, "", ""},
		{"GET", "/v1/things/a%00/", "", ""},
		{"GET", "/v1/things/a%5cb/", "", ""},
		{"GET", "/v1/things/%ff/", "", ""},
		{"GET", "/v1/things/%zz/", "", ""},
		{"POST", "/admin/a/b/c", "admin", "admin"},
		{"POST", "/admin/a%2Fb", "", ""},
		{"GET", "/" + strings.Repeat("a/", 40), "", ""},
		{"GET", "/", "root", "root"},
		{"GET", "", "", ""},
		{"GET", "//", "", ""},
	} {
		for _, x := range []struct {
			opt  routetable.Options
			want string
		}{{either, c.want}, {strict, c.wantStrict}} {
			got := ""
			if r, ps := build(x.opt).Match(c.method, c.path); r != nil {
				got = strings.TrimSpace(strings.Join([]string{r.ID, ps["id"], ps["kind"]}, " "))
			}
			expect.Equal(t, got, x.want, c.method, c.path, "last slash told apart", x.opt.LastSlash)
		}
	}
}

// Proves CARD-1: a route has the path with the last slash of its row where the request has
// another, and none where the rest of the path is free.
func TestRespelled(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/things/": "", "/v1/things": "/v1/things/", "/latest/things/a%2Fb": "/latest/things/a%2Fb/",
		"/admin/a": "", "/admin/a/": "", "/": "",
	} {
		r, known := build(either).Route(memproxy.Request{Method: "GET", EscapedPath: path})
		expect.Equal(t, known, true, path)
		expect.Equal(t, r.Respelled, want, path)
	}
}

func TestMatchWithoutParametersDoesNotAllocate(t *testing.T) {
	x := build(strict)
	for _, path := range []string{"/v1/things/", "/v1/things/count/", "/admin/a/b"} {
		expect.Equal(t, testing.AllocsPerRun(100, func() { x.Match("GET", path) }), 0, path)
	}
}
