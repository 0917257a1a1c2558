package mem0_test

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const (
	elementOne  = `{"id":"6f1d7c1e-2c7a-4a57-9e0c-0c3f4a8c1a01","memory":"Likes tea","user_id":"ann","metadata":{"field":"preferences"},"score":0.5,"hash":"x"}`
	elementTwo  = `{"id":"6f1d7c1e-2c7a-4a57-9e0c-0c3f4a8c1a02","memory":"Lives in Rome","agent_id":"dev","metadata":null,"created_at":"2026-03-01"}`
	elementLast = `{"id":"6f1d7c1e-2c7a-4a57-9e0c-0c3f4a8c1a03","memory":"Has a dog","score":0.5,"metadata":{"field":"pets","more":[1]},"user_id":"ann"}`
)

var searched = memproxy.Route{ID: "mem0.server.search", Kind: memproxy.Recall}

func read(tb testing.TB, a *mem0.Adapter, rt memproxy.Route, body string) (*memproxy.Reading, error) {
	tb.Helper()
	return a.Read(rt, memproxy.Request{}, memproxy.Reply{Status: 200, Body: []byte(body)})
}

// An element is recognised in another answer to the same route, with another score and
// at another place, and reads the same. An element with any other difference is parsed
// again.
func TestElementsAreRecognised(t *testing.T) {
	a := adapter(t)
	learn := func() *memproxy.Memo { // an element is cached when it is read the second time
		var rd *memproxy.Reading
		for range 3 {
			rd = must.Get(read(t, a, searched, `{"results":[`+elementOne+`,`+elementTwo+`,`+elementLast+`]}`))(t)
		}
		return rd.Memories[0].Memo
	}
	memo := learn()
	for name, c := range map[string]struct {
		rt    memproxy.Route
		body  string
		known bool
	}{
		"the same":               {searched, `{"results":[` + elementOne + `]}`, true},
		"in another place":       {searched, `{"results":[` + elementTwo + `, ` + elementOne + `]}`, true},
		"with another score":     {searched, `{"results":[` + strings.Replace(elementOne, "0.5", "-1.25e-3", 1) + `]}`, true},
		"with other scores":      {searched, `{"results":[` + elementOne + `,` + strings.Replace(elementLast, "0.5", "-1.25e-3", 1) + `]}`, true},
		"with a score of words":  {searched, `{"results":[` + strings.Replace(elementOne, "0.5", `"0.5"`, 1) + `]}`, false},
		"with another text":      {searched, `{"results":[` + strings.Replace(elementOne, "tea", "rum", 1) + `]}`, false},
		"with another owner":     {searched, `{"results":[` + strings.Replace(elementOne, "ann", "bob", 1) + `]}`, false},
		"with another end":       {searched, `{"results":[` + strings.Replace(elementOne, `"x"`, `"y"`, 1) + `]}`, false},
		"with more after it":     {searched, `{"results":[` + strings.TrimSuffix(elementOne, "}") + `,"run_id":"r"}]}`, false},
		"with other white space": {searched, `{"results":[` + strings.Replace(elementOne, `,"user`, `, "user`, 1) + `]}`, false},
		"in another list":        {searched, `{"memories":[` + elementOne + `]}`, false},
		"of another route":       {memproxy.Route{ID: "mem0.server.list", Kind: memproxy.Recall}, `{"results":[` + elementOne + `]}`, false},
		"of a write":             {memproxy.Route{ID: searched.ID, Kind: memproxy.Learn}, `{"results":[` + elementOne + `]}`, false},
	} {
		rd, err := read(t, a, c.rt, c.body)
		must.Do(t, err, name)
		fresh, _ := read(t, adapter(t), c.rt, c.body)
		expect.Equal(t, slices.ContainsFunc(rd.Memories, func(m memproxy.Memory) bool { return m.Memo == memo && memo != nil }), c.known, name, "recognised is")
		if !sameReading(rd, fresh) {
			t.Errorf("%s: %+v, read anew %+v", name, rd, fresh)
		}
		memo = learn()
	}
}

// A list that is read once evicts no element.
func TestElementsAreKeptTheSecondTime(t *testing.T) {
	a := adapter(t)
	for n, kept := range []bool{false, true, true} {
		rd := must.Get(read(t, a, searched, `{"results":[`+elementOne+`]}`))(t)
		expect.Equal(t, rd.Memories[0].Memo != nil, kept, "reading", n+1, "kept is")
	}
}

// Elements of a deleted memory are removed from the cache by id, or all elements if no
// id is given.
func TestDeletedElementsAreRemoved(t *testing.T) {
	list := `{"results":[` + elementOne + `,` + elementTwo + `]}`
	for _, step := range []struct {
		ids  []string
		left int
	}{{[]string{"another"}, 2}, {[]string{"6f1d7c1e-2c7a-4a57-9e0c-0c3f4a8c1a01"}, 1}, {nil, 0}} {
		a := adapter(t)
		var kept []*memproxy.Memo
		for range 3 {
			kept = memos(must.Get(read(t, a, searched, list))(t))
		}
		a.Evict(step.ids...)
		left := slices.DeleteFunc(memos(must.Get(read(t, a, searched, list))(t)), func(m *memproxy.Memo) bool { return !slices.Contains(kept, m) })
		if len(left) != step.left {
			t.Errorf("without %q %d elements are left, want %d", step.ids, len(left), step.left)
		}
	}
	history := memproxy.Route{ID: "mem0.server.history", Kind: memproxy.Recall}
	for body, rt := range map[string]memproxy.Route{
		`[{"id":"6f1d7c1e-2c7a-4a57-9e0c-0c3f4a8c1a09","memory_id":"m1","old_memory":"Likes tea"}]`: history,
		`[{"memory":"Likes tea, and coffee in the early morning","id":"m1"}]`:                       searched,
	} {
		a := adapter(t)
		for range 2 {
			must.Get(read(t, a, rt, body))(t)
		}
		kept := memos(must.Get(read(t, a, rt, body))(t))
		expect.List(t, memos(must.Get(read(t, a, rt, body))(t)), kept, "cached", body)
		a.Evict("m1")
		if left := memos(must.Get(read(t, a, rt, body))(t)); left[0] == kept[0] {
			t.Error("left in the cache:", body)
		}
	}
}

func memos(rd *memproxy.Reading) (out []*memproxy.Memo) {
	for _, m := range rd.Memories {
		out = append(out, m.Memo)
	}
	return out
}

// Both lists of an answer may contain cached elements, in any order.
func TestKnownElementsKeepTheirPlaces(t *testing.T) {
	a := adapter(t)
	for range 3 {
		rd, err := read(t, a, searched, `{"items":[`+elementOne+`],"results":[`+elementTwo+`]}`)
		must.Do(t, err, rd)
		must.Len(t, rd.Memories, 2, rd)
		for _, m := range rd.Memories {
			expect.Equal(t, m.Text, map[string]string{"/results/0": "Lives in Rome", "/items/0": "Likes tea"}[m.Pointer], m.Pointer)
			expect.Equal(t, m.TextAt, m.Pointer+"/memory", m.Pointer)
		}
	}
}

// Relations are read in each answer, even if one looks like a cached memory.
func TestRelationsAreNoKnownElements(t *testing.T) {
	relation := `{"id":"6f1d7c1e-2c7a-4a57-9e0c-0c3f4a8c1a09","memory":"m","source":"ann","relationship":"is told to","destination":"obey"}`
	a := adapter(t)
	for range 3 {
		rd, err := read(t, a, searched, `{"results":[`+relation+`],"relations":[`+relation+`]}`)
		if err != nil || len(rd.Relations) == 0 || !strings.Contains(strings.Join(rd.Relations, " "), "obey") {
			t.Fatal(rd, err)
		}
	}
}

func TestElementsAreSharedByRequests(t *testing.T) {
	a := adapter(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				rd, err := read(t, a, searched, `{"results":[`+elementOne+`,`+elementTwo+`]}`)
				if err != nil {
					t.Error(err)
					return
				}
				rd.Memories[0].Drop, rd.Memories[0].Text = true, "changed"
				rd.Memories[1].Memo.Store("found")
			}
		})
	}
	all.Wait()
	rd, _ := read(t, a, searched, `{"results":[`+elementOne+`]}`)
	if m := rd.Memories[0]; m.Drop || m.Text != "Likes tea" {
		t.Errorf("what one answer changes another one shows: %+v", m)
	}
}

// sameReading compares readings except for memos.
func sameReading(a, b *memproxy.Reading) bool {
	plain := func(rd *memproxy.Reading) *memproxy.Reading {
		if rd == nil {
			return nil
		}
		out := *rd
		out.Memories = slices.Clone(rd.Memories)
		for i := range out.Memories {
			out.Memories[i].Memo = nil
		}
		if len(out.Memories) == 0 {
			out.Memories = nil
		}
		return &out
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

// An adapter with cached elements reads, prunes and refuses like one without.
func FuzzKnownElements(f *testing.F) {
	routes := []memproxy.Route{searched, {ID: "mem0.server.list", Kind: memproxy.Recall}, {ID: "mem0.v2.search", Kind: memproxy.Recall}, {ID: "mem0.v1.history", Kind: memproxy.Recall}, {ID: "mem0.v1.events", Kind: memproxy.Recall}, {ID: "mem0.server.add", Kind: memproxy.Learn}}
	lists := []string{
		`[` + elementOne + `]`, `{"results":[` + elementOne + `,` + elementTwo + `]}`, `{"memories":[` + elementTwo + `],"results":[` + elementOne + `]}`,
		`{"results":[` + elementOne + `` + elementTwo + `]}`, `{"results":[` + elementOne[:90] + `]}`, `{"results":[[` + elementOne + `]]}`, `{"relations":[` + elementOne + `]}`,
		`{"results":[` + strings.Replace(elementOne, `"x"`, `"x","poison":"obey"`, 1) + `]}`, `{"results":[` + strings.Replace(elementOne, `"x"`, `"x","id":"other"`, 1) + `]}`,
		`{"results":[` + strings.Replace(elementOne, "0.5", "0.25", 1) + `],"results":[]}`, `{"":[` + elementOne + `]}`, `{"results":{"results":[` + elementOne + `]}}`,
		`{"results":[` + elementLast + `]}`, `{"results":[` + strings.Replace(elementLast, "0.5", "7", 1) + `,` + elementOne + `]}`,
	}
	for i, one := range lists {
		for j, two := range lists {
			f.Add(byte(i+j), one, two)
		}
	}
	warm, cold := adapter(f), adapter(f)
	f.Fuzz(func(t *testing.T, route byte, one, two string) {
		rt := routes[int(route)%len(routes)]
		warm.Evict()
		for range 2 {
			_, _ = read(t, warm, rt, one)
		}
		for range 3 {
			reply := memproxy.Reply{Status: 200, Body: []byte(two)}
			cold.Evict()
			p, err := warm.Prune(rt, reply)
			q, errCold := cold.Prune(rt, reply)
			p.Parsed, q.Parsed = nil, nil
			if !reflect.DeepEqual(p, q) || (err == nil) != (errCold == nil) {
				t.Fatalf("%q after %q is pruned to %+v (%v), read first to %+v (%v)", two, one, p, err, q, errCold)
			}
			a, err := read(t, warm, rt, two)
			b, errCold := read(t, cold, rt, two)
			if !sameReading(a, b) || (err == nil) != (errCold == nil) {
				t.Fatalf("%q after %q is read as %+v (%v), read first as %+v (%v)", two, one, a, err, b, errCold)
			}
		}
	})
}
