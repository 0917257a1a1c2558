package contract

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

func small(make func(name, tenant string, n int) *Owner, unknown map[string]string) *World {
	w := &World{Owners: []*Owner{make("victim", "acme", 1), make("neighbour", "acme", 2), make("other", "globex", 3)}, Unknown: unknown, Names: map[string]bool{"user": true}}
	w.Callers = []*Caller{{Name: "other", Owner: w.Owners[2], Sees: w.Owners[2:]}, {Name: "nobody", Owner: w.Owners[2]}}
	return w
}

// Proves EDGE-13: every row of the adapters' tables is in the matrix, with every
// part of its path, and a row of which nothing is known ends it with an error.
func TestEveryRouteIsInTheMatrix(t *testing.T) {
	ring.Long(t, "one case after another")
	l := must.Get(letta.New(letta.Options{}))(t)
	m := must.Get(mem0.New(mem0.Options{}))(t)
	for name, tc := range map[string]struct {
		f     *Format
		w     *World
		table func(func(string, memproxy.Route) bool)
	}{
		"letta": {Letta(), small(LettaOwner, LettaUnknown()), l.Routes()},
		"mem0":  {Mem0(), small(Mem0Owner, Mem0Unknown()), m.Routes()},
	} {
		t.Run(name, func(t *testing.T) {
			for at, rt := range tc.table {
				method, path, _ := strings.Cut(at, " ")
				r := Route{ID: rt.ID, Method: method, Path: path, Kind: rt.Kind}
				seen := map[string]bool{}
				for c, err := range tc.f.Cases(tc.w, []Route{r}, AllCases) {
					must.Do(t, err, at)
					seen[c.Place+" "+string(c.Class)] = true
				}
				for _, part := range param.FindAllStringSubmatch(path, -1) {
					if kind, _ := tc.f.kind(&r, part[1], part[2] != ""); strings.HasPrefix(kind, "=") {
						continue
					}
					for _, class := range Classes {
						if !seen["path:"+part[1]+" "+string(class)] {
							t.Errorf("%s: no case has {%s} %s", at, part[1], class)
						}
					}
				}
				if !seen[" own"] || len(seen) < len(Classes) {
					t.Errorf("%s: %d kinds of cases", at, len(seen))
				}
			}
			for _, path := range []string{"/v1/things/{thing_of_tomorrow}", "/v1/things/{rest...}"} {
				failed := false
				for _, err := range tc.f.Cases(tc.w, []Route{{ID: "tomorrow", Method: "GET", Path: path}}, AllCases) {
					failed = failed || err != nil
				}
				if !failed {
					t.Errorf("%s is in the matrix, and nothing says what it names", path)
				}
			}
		})
	}
}

// Proves EDGE-13: of the shares of a matrix, each case is in one, whatever the
// ids of the objects are.
func TestSharesAreTheWhole(t *testing.T) {
	routes := []Route{{ID: "one", Method: "GET", Path: "/v1/agents/{agent_id}"}, {ID: "two", Method: "POST", Path: "/v1/agents/"}}
	const share = 7
	first, again := map[string]uint32{}, map[string]uint32{}
	for n, played := range map[int]map[string]uint32{1: first, 2: again} {
		w := small(LettaOwner, LettaUnknown())
		w.Owners[2].Objects["agent"] += strings.Repeat("0", n)
		for c, err := range Letta().Cases(w, routes, AllCases) {
			must.Do(t, err)
			name, times := strings.Join([]string{c.Route.ID, c.Place, string(c.Class), c.Caller.Name}, " "), 0
			for seed := range uint32(share) {
				if (&Matrix{World: w, Share: share, Seed: seed}).plays(c) {
					played[name] = seed
					times++
				}
			}
			always := c.Class == Victims && c.Caller == w.Callers[0] && strings.HasPrefix(c.Place, "path:")
			expect.Equal(t, times, map[bool]int{true: share, false: 1}[always], name, "is played for")
		}
	}
	for name, seed := range first {
		expect.Equal(t, again[name], seed, name, "is played for")
	}
}
