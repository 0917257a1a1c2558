package mem0_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-3: a filter narrows a read to the names that all of its readings leave.
func TestWithin(t *testing.T) {
	a := adapter(t)
	for filter, want := range map[string]string{ // "all": not narrowed
		`{"user_id":"ann","agent_id":"x","NOT":{"user_id":"bob"}}`:                             "ann",
		`{"AND":[{"user_id":"ann"},{"NOT":{"user_id":"bob"}}]}`:                                "ann",
		`{"AND":[{"user_id":"ann"},{"NOT":[{"user_id":"bob"},{"run_id":"r"}]}]}`:               "ann",
		`{"AND":[{"user_id":"ann"},{"user_id":{"ne":"bob"}}]}`:                                 "ann",
		`{"AND":[{"user_id":"ann"},{"user_id":{"contains":"a"}}]}`:                             "ann",
		`{"AND":[{"user_id":"ann"},{"user_id":"*"}]}`:                                          "ann",
		`{"AND":[{"user_id":{"in":["ann","bob"]}},{"user_id":{"nin":["bob"]}}]}`:               "ann bob",
		`{"user_id":{"in":["ann","bob"],"ne":"bob"}}`:                                          "ann bob",
		`{"AND":[{"user_id":["ann","bob"]},{"user_id":["bob","eve"]},{"user_id":{"ne":"x"}}]}`: "bob",
		`{"OR":[{"AND":[{"user_id":"ann"},{"NOT":{"user_id":"bob"}}]},{"user_id":"eve"}]}`:     "ann eve",
		`{"NOT":{"user_id":{"ne":"ann"}}}`:                                                     "ann",
		`{"NOT":{"NOT":{"user_id":"ann"}}}`:                                                    "ann",
		`{"NOT":{"OR":[{"user_id":{"ne":"ann"}},{"run_id":"r"}]}}`:                             "ann",
		`{"$and":[{"user_id":{"$eq":"ann"}},{"$not":{"user_id":{"$in":["bob"]}}}]}`:            "ann",

		`{"NOT":{"user_id":"bob"}}`:                                          "all",
		`{"user_id":"*"}`:                                                    "all",
		`{"user_id":{"contains":"ann"}}`:                                     "all",
		`{"user_id":{"ne":"bob"},"run_id":"r"}`:                              "all",
		`{"OR":[{"user_id":"ann"},{"NOT":{"user_id":"bob"}}]}`:               "all",
		`{"OR":[{"user_id":"ann"},{"run_id":"r"}],"user_id":{"ne":"bob"}}`:   "all",
		`{"AND":[{"user_id":{"ne":"bob"}}],"OR":[{"user_id":"ann"}]}`:        "all", // the platform ignores the OR
		`{"NOT":{"AND":[{"user_id":{"ne":"ann"}},{"run_id":"r"}]}}`:          "all",
		`{"NOT":[{"user_id":{"ne":"ann"}},{"run_id":"r"}]}`:                  "all", // a backend may read: not both
		`{"AND":[{"NOT":{"user_id":"bob"}},{"metadata":{"user_id":"ann"}}]}`: "all",
		`{"AND":[{"NOT":{"user_id":"bob"}},{"user_id":{"in":["ann","*"]}}]}`: "all",
		`{"AND":[{"NOT":{"user_id":"bob"}},{"user_id":{"in":["ann",""]}}]}`:  "all",
		`{"AND":[{"NOT":{"user_id":"bob"}},{"user_id":{"in":"annabel"}}]}`:   "all", // may be read as a part of the text
		`{"AND":[{"NOT":{"user_id":"bob"}},{"user_id":null},{"OR":[]}]}`:     "all",
	} {
		op := decode(t, a, "POST /v3/memories/search/", `{"query":"tea","filters":`+filter+`}`)
		names, is := op.Within[memproxy.DimUser]
		got := "all"
		if is {
			slices.Sort(names)
			got = strings.Join(slices.Compact(names), " ")
		}
		if got != want {
			t.Errorf("%s: within %s, want %s", filter, got, want)
		}
	}
	for target, body := range map[string]string{
		"POST /v1/memories/search/": `{"query":"tea","user_id":"bob","filters":{"AND":[{"user_id":"ann"},{"NOT":{"user_id":"bob"}}]}}`, // ignores owners in filters
		"POST /v3/memories/search/": `{"query":"tea","filters":{"NOT":{"user_id":"bob"}},"metadata":{"filters":{"user_id":"ann"}}}`,
	} {
		if op := decode(t, a, target, body); len(op.Within) > 0 {
			t.Errorf("%s %s: within %v", target, body, op.Within)
		}
	}
}

// reading is how a backend reads what the platform's documentation leaves open.
type reading struct {
	keepsOR bool // next to an AND
	notBoth bool // a list in NOT excludes what matches all of its filters
}

// matches evaluates a filter as a backend does for a memory with these members.
func (r reading) matches(filter any, memory map[string]string) bool {
	if list, is := filter.([]any); is {
		return !slices.ContainsFunc(list, func(f any) bool { return !r.matches(f, memory) })
	}
	object := filter.(map[string]any)
	for key, want := range object {
		list, is := want.([]any)
		if !is {
			list = []any{want}
		}
		holds := func(f any) bool { return r.matches(f, memory) }
		fails := func(f any) bool { return !r.matches(f, memory) }
		ok := true
		switch key {
		case "AND":
			ok = !slices.ContainsFunc(list, fails)
		case "OR":
			ok = object["AND"] != nil && !r.keepsOR || slices.ContainsFunc(list, holds)
		case "NOT":
			ok = !slices.ContainsFunc(list, holds)
			if r.notBoth {
				ok = slices.ContainsFunc(list, fails)
			}
		default:
			ok = equal(want, memory[key])
		}
		if !ok {
			return false
		}
	}
	return true
}

func equal(want any, have string) bool {
	switch want := want.(type) {
	case string:
		return want == have || want == "*" && have != ""
	case []any:
		return slices.Contains(want, any(have))
	}
	for op, value := range want.(map[string]any) {
		is := op == "contains" && strings.Contains(have, fmt.Sprint(value)) || op != "contains" && equal(value, have)
		if is == (op == "ne" || op == "nin") {
			return false
		}
	}
	return true
}

// generated returns a random filter.
func generated(r *rand.Rand, depth int) any {
	name := func() any { return [...]string{"ann", "bob", "eve", "*"}[r.IntN(24)%7%4] }
	list := func(f func() any) (all []any) {
		for range 1 + r.IntN(3) {
			all = append(all, f())
		}
		return all
	}
	value := func() any {
		switch r.IntN(6) {
		case 0:
			return list(name)
		case 1:
			return map[string]any{[...]string{"eq", "ne", "contains"}[r.IntN(3)]: name(), [...]string{"in", "nin"}[r.IntN(2)]: list(name)}
		case 2:
			return map[string]any{"ne": name()}
		}
		return name()
	}
	out := map[string]any{}
	for range 1 + r.IntN(2) {
		switch deep := func() any { return generated(r, depth-1) }; r.IntN(6) * min(depth, 1) {
		case 1:
			out["AND"] = list(deep)
		case 2:
			out["OR"] = list(deep)
		case 3:
			out["NOT"] = list(deep)
		case 4:
			out["NOT"] = deep()
		default:
			out[[...]string{"user_id", "user_id", "user_id", "run_id"}[r.IntN(4)]] = value()
		}
	}
	return out
}

// Proves EDGE-3: whatever memory matches a filter, by any reading, has one of the names
// within which the filter narrows the read.
func TestWithinIsAnUpperBound(t *testing.T) {
	a, r := adapter(t), rand.New(rand.NewPCG(7, 11))
	narrowed := 0
	for range 3_000 {
		filter := generated(r, 3)
		text := string(must.Get(json.Marshal(filter))(t))
		op := decode(t, a, "POST /v3/memories/search/", `{"query":"tea","filters":`+text+`}`)
		names, is := op.Within[memproxy.DimUser]
		if !is {
			continue
		}
		narrowed++
		for _, user := range []string{"", "ann", "bob", "eve", "someone"} {
			for _, run := range []string{"", "ann", "bob"} {
				for _, as := range []reading{{}, {keepsOR: true}, {notBoth: true}, {true, true}} {
					if as.matches(filter, map[string]string{"user_id": user, "run_id": run}) && !slices.Contains(names, user) {
						t.Fatalf("%s: within %q, and a memory of user %q, run %q matches (%+v)", text, names, user, run, as)
					}
				}
			}
		}
	}
	if narrowed < 300 {
		t.Errorf("%d of the filters narrow: too few to tell", narrowed)
	}
}

// Proves EDGE-3: the work for a filter grows with its length, not with the square of it,
// however many of its conditions do not name an owner.
func TestNarrowingReadsAFilterOnce(t *testing.T) {
	a := adapter(t)
	allocated := func(conditions int) float64 {
		body := `{"query":"tea","filters":{"AND":[{"user_id":"ann"}` + strings.Repeat(`,{"user_id":{"ne":"bob"}}`, conditions) + `]}}`
		return testing.AllocsPerRun(3, func() { decode(t, a, "POST /v3/memories/search/", body) })
	}
	if few, many := allocated(100), allocated(400); many > 6*few {
		t.Errorf("%v allocations for a hundred conditions, %v for four hundred", few, many)
	}
}
