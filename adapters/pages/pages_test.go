package pages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/pages"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// backend is a list of numbers, some of which are dropped.
type backend struct {
	n    int
	gone func(int) bool
	// requests that were made
	asked []string
}

type element struct {
	ID string `json:"id"`
}

func (b *backend) list(n, after int) []element {
	out := []element{}
	for i := after + 1; i <= b.n && len(out) < n; i++ {
		out = append(out, element{fmt.Sprint(i)})
	}
	return out
}

// answer returns a list, its reading, and the list without the dropped elements.
func (b *backend) answer(t *testing.T, list []element) (memproxy.Reply, *memproxy.Reading) {
	t.Helper()
	body := must.Get(json.Marshal(list))(t)
	rd := &memproxy.Reading{}
	for i, e := range list {
		var n int
		_, _ = fmt.Sscan(e.ID, &n)
		rd.Memories = append(rd.Memories, memproxy.Memory{Pointer: fmt.Sprintf("/%d", i), ID: e.ID, Drop: b.gone(n)})
	}
	return memproxy.Reply{Status: 200, Body: body}, rd
}

func kept(t *testing.T, list []element, rd *memproxy.Reading) []byte {
	t.Helper()
	out := []element{}
	for i, e := range list {
		if !rd.Memories[i].Drop {
			out = append(out, e)
		}
	}
	body := must.Get(json.Marshal(out))(t)
	return body
}

// page returns one page as a client gets it, with at most four further requests.
func (b *backend) page(t *testing.T, want, after int, o pages.Options) []string {
	t.Helper()
	list := b.list(want, after)
	reply, rd := b.answer(t, list)
	o.Want, o.Max = want, 1000
	o.Ask = func(n int, last string) (memproxy.SideRequest, bool) {
		return memproxy.SideRequest{Request: memproxy.Request{Query: fmt.Sprintf("%d %s", n, last)}}, true
	}
	body := kept(t, list, rd)
	f := pages.New(o, reply, rd)
	if f != nil {
		var more [][]byte
		for range 4 {
			q, asks := f.Next()
			if !asks {
				break
			}
			b.asked = append(b.asked, q.Request.Query)
			n, last := 0, after
			must.Get(fmt.Sscan(q.Request.Query, &n, &last))(t)
			if o.Ranked {
				last = after
			}
			list := b.list(n, last)
			reply, rd := b.answer(t, list)
			must.Do(t, f.Select(reply, rd))
			more = append(more, kept(t, list, rd))
		}
		body = must.Get(f.Answer(memproxy.Reply{Body: body}, more))(t).Body
	}
	var out []element
	must.Do(t, json.Unmarshal(body, &out))
	var ids []string
	for _, e := range out {
		ids = append(ids, e.ID)
	}
	return ids
}

// Proves MFW-8: a client that pages through a list by its last element until an empty
// page sees each shown element once, in order.
func TestEachElementIsShownOnce(t *testing.T) {
	for name, gone := range map[string]func(int) bool{
		"none":               func(int) bool { return false },
		"all":                func(int) bool { return true },
		"some":               func(i int) bool { return i%3 == 0 },
		"most":               func(i int) bool { return i%7 != 0 },
		"whole pages":        func(i int) bool { return i > 5 && i < 60 },
		"the first of all":   func(i int) bool { return i < 400 },
		"the last of a page": func(i int) bool { return i%10 == 0 },
		"the end":            func(i int) bool { return i > 480 },
	} {
		t.Run(name, func(t *testing.T) {
			b := &backend{n: 500, gone: gone}
			var want, got []string
			for i := 1; i <= b.n; i++ {
				if !gone(i) {
					want = append(want, fmt.Sprint(i))
				}
			}
			for after := 0; ; {
				ids := b.page(t, 10, after, pages.Options{})
				if len(ids) == 0 {
					break
				}
				if len(ids) > 10 {
					t.Fatalf("%d elements were given, 10 were asked for", len(ids))
				}
				got = append(got, ids...)
				_, _ = fmt.Sscan(ids[len(ids)-1], &after)
			}
			expect.List(t, got, want, "saw")
			if name == "none" && len(b.asked) > 0 {
				t.Errorf("nothing was missing, and %v was asked for", b.asked)
			}
		})
	}
}

// Proves MFW-8: a ranked list with dropped elements has the requested length, if there
// are enough elements, best first.
func TestRanked(t *testing.T) {
	b := &backend{n: 50, gone: func(i int) bool { return i <= 12 }}
	expect.Equal(t, strings.Join(b.page(t, 5, 0, pages.Options{Ranked: true}), " "), "13 14 15 16 17")
	expect.Len(t, b.asked, 1)
	b = &backend{n: 12, gone: func(i int) bool { return i != 11 }}
	expect.Equal(t, strings.Join(b.page(t, 5, 0, pages.Options{Ranked: true}), " "), "11")
	expect.Len(t, b.asked, 1)
}

// A list with an element without an id is not continued.
func TestElementsWithoutIDs(t *testing.T) {
	rd := &memproxy.Reading{Memories: []memproxy.Memory{{Pointer: "/results/0", Drop: true}, {Pointer: "/results/1"}}}
	reply := memproxy.Reply{Body: []byte(`{"results":[{},{}]}`)}
	if pages.New(pages.Options{Keys: []string{"results"}}, reply, rd) != nil {
		t.Error("a list without ids is filled up")
	}
}

// Elements that share an id are parts of one: a page is not cut between them, and only
// an emptied page is refilled.
func TestElementsThatShareAnID(t *testing.T) {
	o := pages.Options{Want: 1, Max: 100, SharedIDs: true, Ask: func(int, string) (memproxy.SideRequest, bool) { return memproxy.SideRequest{}, true }}
	reply := memproxy.Reply{Body: []byte(`[{"id":"a"},{"id":"a"},{"id":"b"}]`)}
	parts := func(drop ...bool) *memproxy.Reading {
		rd := &memproxy.Reading{}
		for i, id := range []string{"a", "a", "b"} {
			rd.Memories = append(rd.Memories, memproxy.Memory{Pointer: fmt.Sprintf("/%d", i), ID: id, Drop: drop[i]})
		}
		return rd
	}
	if pages.New(o, reply, parts(true, true, false)) != nil {
		t.Error("a page of which something is left is filled up")
	}
	f := pages.New(o, reply, parts(true, true, true))
	if f == nil {
		t.Fatal("an emptied page is not filled up")
	}
	if _, more := f.Next(); !more {
		t.Fatal("nothing is asked for")
	}
	rd := parts(false, false, false)
	for i := range rd.Memories {
		rd.Memories[i].ID = "c" + rd.Memories[i].ID
	}
	if err := f.Select(reply, rd); err != nil || rd.Memories[0].Drop || rd.Memories[1].Drop || !rd.Memories[2].Drop {
		t.Errorf("%+v %v", rd.Memories, err)
	}
}

func TestQueries(t *testing.T) {
	for _, tc := range [][2]string{
		{"", "limit=5"}, {"a=%20&limit=9&b=", "a=%20&b=&limit=5"}, {"l%69mit=1&x", "x&limit=5"}, {"limits=1", "limits=1&limit=5"},
	} {
		expect.Equal(t, pages.SetParam(tc[0], "limit", "5"), tc[1], tc[0], "became")
	}
	for query, want := range map[string]string{"a=1&limit=%35": "5", "limit=1&limit=2": "", "x=1": ""} {
		if got, _ := pages.Param(query, "limit"); got != want {
			t.Errorf("%q: %q", query, got)
		}
	}
}

// With any answer of a backend, refilling does not panic and returns JSON.
func FuzzFill(f *testing.F) {
	f.Add(`[{"id":"1"},{"id":"2"}]`, `[{"id":"2"},{"id":"3"}]`, 2)
	f.Add(`{"results":[{"id":"1"},{}],"count":2}`, `{"results":[]}`, 0)
	f.Add(`{"results":[],"count":"x"}`, `null`, 3)
	f.Fuzz(func(t *testing.T, first, second string, want int) {
		want = min(max(want, 0), 100)
		read := func(body string) (memproxy.Reply, *memproxy.Reading) {
			var list []element
			if json.Unmarshal([]byte(body), &list) != nil {
				var in struct {
					Results []element `json:"results"`
				}
				_ = json.Unmarshal([]byte(body), &in)
				list = in.Results
			}
			rd := &memproxy.Reading{}
			for i, e := range list {
				rd.Memories = append(rd.Memories, memproxy.Memory{Pointer: fmt.Sprintf("/%d", i), ID: e.ID, Drop: i == 0})
			}
			return memproxy.Reply{Body: []byte(body)}, rd
		}
		reply, rd := read(first)
		fill := pages.New(pages.Options{Want: want, Max: 50, Keys: []string{"results"}, Ask: func(int, string) (memproxy.SideRequest, bool) { return memproxy.SideRequest{}, true }}, reply, rd)
		if fill == nil {
			return
		}
		if n, more := fill.Next(); !more {
			t.Fatalf("it is neither full nor over: %v", n)
		}
		if err := fill.Select(read(second)); err != nil {
			return
		}
		out, err := fill.Answer(reply, [][]byte{[]byte(`[]`)})
		if err == nil && !json.Valid(out.Body) {
			t.Errorf("%s became %s", first, out.Body)
		}
	})
}
