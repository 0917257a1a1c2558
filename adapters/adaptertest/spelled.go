package adaptertest

import (
	"errors"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// misspelled are queries that name an owner in a way that servers in Python, clients in Node
// and the proxy read differently. NAME stands for the claim; Name and nAME stand for parts
// of other spellings of it.
var misspelled = []string{
	"CAMEL=x", "UPPER=x", "DASHED=x", "DOTTED=x", "NAME[]=x", "NAME[0]=x", "NAME[in]=x", "NAME%5B%5D=x", "NAME=x&NAME=y", "NAME=x&UPPER=x",
	"NAME=x;NAME=y", "NAME=x;a=b", "%2575ser_id=x", "NAME%2500=x", "NAME%00=x", "%00NAME=x", "+NAME=x", "NAME+=x", "NAME%20=x", "NAME%0A=x", "%EF%BB%BFNAME=x",
	"%EF%BD%95ser_id=x", "NAME%E2%80%8B=x", "N%C4%B0ME=x", "NAME=%ff", "NAME=x%00", "%zz=x", "NAME%=x", "=x", "[NAME]=x", "NAME]=x", "a[NAME=x", "a[b]NAME=x", "a[CAMEL]=x", "a[b][UPPER]=x",
	"NAME%26x=1", "NAME%3D=1", "NAME%3B=1", "NAME\xff=x",
}

// spelled are queries that all readers read in the same way.
var spelled = []string{"", "NAME=x", "NAME=x&NAME=x", "NAME=%2561", "unknown=1&unknown=2", "unknown%5B%5D=1&unknown%5B%5D=2", "camelCase=1&with-dash=2", "a[b][c]=1", "flag", "NAME=x&&unknown="}

// RunSpelled checks that every route of an adapter's table refuses the misspelled queries
// with 400 and accepts the spelled ones. filled returns a path for a row's pattern.
func RunSpelled(t *testing.T, a RoutedAdapter, claim string, filled func(pattern string) string) {
	first, last, _ := strings.Cut(claim, "_")
	names := strings.NewReplacer("NAME", claim, "CAMEL", first+strings.ToUpper(last[:1])+last[1:], "UPPER", strings.ToUpper(claim), "DASHED", first+"-"+last, "DOTTED", first+"."+last)
	for at, rt := range a.Routes() {
		req := requestTo(at, filled)
		ask := func(query string) *memproxy.Flaw {
			req.Query = names.Replace(query)
			found, ok := a.Route(req)
			must.That(t, ok, "%s: no route with the query %q", at, query)
			_, err := a.Decode(found, req, nil)
			var bad *memproxy.Flaw
			must.That(t, err == nil || errors.As(err, &bad), "%s: %v", at, err)
			return bad
		}
		plain := ask("")
		if rt.Public || plain != nil && plain.Code == memproxy.RouteUnknown {
			continue // the gate does not rule on the route, or the adapter refuses every query
		}
		for _, query := range misspelled {
			if bad := ask(query); bad == nil || bad.Status != 400 {
				t.Errorf("%s: the query %q is read: %v", rt.ID, names.Replace(query), bad)
			}
		}
		for _, query := range spelled {
			if bad := ask(query); bad != nil && bad.Code != memproxy.ScopeConflict && strings.HasPrefix(bad.Pointer, "query") {
				t.Errorf("%s: the query %q is refused: %v", rt.ID, names.Replace(query), bad)
			}
		}
	}
}

// Malformed sends a body to a route, "METHOD /path", and reports whether the
// adapter refuses it with 400.
func Malformed(t *testing.T, a Adapter, at, body string) bool {
	t.Helper()
	req := requestTo(at, strings.Clone)
	rt, ok := a.Route(req)
	must.That(t, ok, "%s is no route", at)
	_, err := a.Decode(rt, req, []byte(body))
	var bad *memproxy.Flaw
	return errors.As(err, &bad) && bad.Status == 400
}
