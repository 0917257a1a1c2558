package contract_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/contract"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

var param = regexp.MustCompile(`\{([a-z_]+)(\.\.\.)?\}`)

func small(make func(name, tenant string, n int) *contract.Owner, unknown map[string]string) *contract.World {
	w := &contract.World{Owners: []*contract.Owner{make("victim", "acme", 1), make("neighbour", "acme", 2), make("other", "globex", 3)}, Unknown: unknown, Names: map[string]bool{"user": true}}
	w.Callers = []*contract.Caller{{Name: "other", Owner: w.Owners[2], Sees: w.Owners[2:]}, {Name: "nobody", Owner: w.Owners[2]}}
	return w
}

// Proves EDGE-13: every row of the adapters' tables is in the matrix, with every
// part of its path, and a row of which nothing is known ends it with an error.
func TestEveryRouteIsInTheMatrix(t *testing.T) {
	ring.Long(t, "one case after another")
	l := must.Get(letta.New(letta.Options{}))(t)
	m := must.Get(mem0.New(mem0.Options{}))(t)
	for name, tc := range map[string]struct {
		f     *contract.Format
		w     *contract.World
		table func(func(string, memproxy.Route) bool)
	}{
		"letta": {contract.Letta(), small(contract.LettaOwner, contract.LettaUnknown()), l.Routes()},
		"mem0":  {contract.Mem0(), small(contract.Mem0Owner, contract.Mem0Unknown()), m.Routes()},
	} {
		t.Run(name, func(t *testing.T) {
			for at, rt := range tc.table {
				method, path, _ := strings.Cut(at, " ")
				r := contract.Route{ID: rt.ID, Method: method, Path: path, Kind: rt.Kind}
				seen := map[string]bool{}
				for c, err := range tc.f.Cases(tc.w, []contract.Route{r}, contract.AllCases) {
					must.Do(t, err, at)
					seen[c.Place+" "+string(c.Class)] = true
				}
				for _, part := range param.FindAllStringSubmatch(path, -1) {
					if part[2] == "" && strings.HasPrefix(tc.f.Params[part[1]], "=") {
						continue // a word
					}
					for _, class := range contract.Classes {
						expect.Equal(t, seen["path:"+part[1]+" "+string(class)], true, at, "no case has {", part[1], "}", class)
					}
				}
				expect.That(t, seen[" own"] && len(seen) >= len(contract.Classes), "%s: %d kinds of cases", at, len(seen))
			}
			for _, path := range []string{"/v1/things/{thing_of_tomorrow}", "/v1/things/{rest...}"} {
				failed := false
				for _, err := range tc.f.Cases(tc.w, []contract.Route{{ID: "tomorrow", Method: "GET", Path: path}}, contract.AllCases) {
					failed = failed || err != nil
				}
				expect.Equal(t, failed, true, path, "is in the matrix, and nothing says what it names")
			}
		})
	}
}

// Proves EDGE-13: of the shares of a matrix, each case is in one, whatever the
// ids of the objects are.
func TestSharesAreTheWhole(t *testing.T) {
	routes := []contract.Route{{ID: "one", Method: "GET", Path: "/v1/agents/{agent_id}"}, {ID: "two", Method: "POST", Path: "/v1/agents/"}}
	const share = 7
	nowhere := httptest.NewServer(http.NotFoundHandler())
	defer nowhere.Close()
	first, again := map[string]uint32{}, map[string]uint32{}
	for n, played := range map[int]map[string]uint32{1: first, 2: again} {
		w := small(contract.LettaOwner, contract.LettaUnknown())
		w.Owners[2].Objects["agent"] += strings.Repeat("0", n)
		nameOf := func(c *contract.Case) string {
			return strings.Join([]string{c.Route.ID, c.Place, string(c.Class), c.Caller.Name}, " ")
		}
		times := map[string]int{}
		for seed := range uint32(share) {
			p := &contract.Matrix{Format: contract.Letta(), World: w, Routes: routes, Base: nowhere.URL, Share: share, Seed: seed, Fail: func(string, ...any) {}}
			p.Played = func(c *contract.Case, _ string) {
				played[nameOf(c)] = seed
				times[nameOf(c)]++
			}
			must.Do(t, p.Run())
		}
		all := 0
		for c, err := range contract.Letta().Cases(w, routes, contract.AllCases) {
			must.Do(t, err)
			always := c.Class == contract.Victims && c.Caller == w.Callers[0] && strings.HasPrefix(c.Place, "path:")
			expect.Equal(t, times[nameOf(c)], map[bool]int{true: share, false: 1}[always], nameOf(c), "is played for")
			all++
		}
		expect.Equal(t, len(times), all)
	}
	for name, seed := range first {
		expect.Equal(t, again[name], seed, name, "is played for")
	}
}
