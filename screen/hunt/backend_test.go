package hunt_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/hunt"
)

// served is a backend without a network, so that its tests need not wait.
type served http.HandlerFunc

func (h served) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Header.Get("Authorization") != "Token sesame" {
		w.WriteHeader(http.StatusUnauthorized)
	} else if h(w, r); r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return w.Result(), nil
}

// serve returns how to ask a backend.
func serve(h http.HandlerFunc) hunt.API {
	return hunt.API{URL: "http://backend", Header: http.Header{"authorization": {"Token sesame"}}, Transport: served(h)}
}

// all reads a store from end to end and returns its items as lines.
func all(t *testing.T, p hunt.Pager) []string {
	t.Helper()
	var out []string
	cursor := ""
	for range 100 {
		items, next, err := p.Page(t.Context(), cursor)
		must.Do(t, err)
		for _, i := range items {
			out = append(out, fmt.Sprintf("%s %s %s %s=%s", i.Owner.User+i.Owner.Agent, i.Kind, i.ID, i.Field, i.Text))
		}
		if next == "" {
			return out
		}
		cursor = next
	}
	t.Fatal("the store has no end")
	return nil
}

func pager(t testing.TB) func(hunt.Pager, error) hunt.Pager {
	return func(p hunt.Pager, err error) hunt.Pager {
		t.Helper()
		must.Do(t, err)
		return p
	}
}

var memories = []map[string]any{
	{"id": "m1", "memory": "likes tea", "user_id": "ann", "metadata": map[string]any{"note": "hi", "deep": []any{map[string]any{"a/b": "x"}}, "n": 1, "memproxy_actor": "me"}},
	{"id": "m2", "memory": "has cats", "user_id": "ann", "metadata": nil},
	{"id": "m3", "memory": "", "agent_id": "bot", "session_id": "s"},
	{"id": "m4", "memory": "likes rain", "user_id": "bob"},
	{"id": "m5", "memory": "likes sun", "user_id": "bob"},
}

var memoryLines = []string{
	"ann memory m1 memory=likes tea", "ann memory m1 metadata/deep/0/a~1b=x", "ann memory m1 metadata/memproxy_actor=me", "ann memory m1 metadata/note=hi",
	"ann memory m2 memory=has cats", "bot memory m3 memory=", "bob memory m4 memory=likes rain", "bob memory m5 memory=likes sun",
}

// paged answers as the hosted platform does; its links lead elsewhere.
func paged(w http.ResponseWriter, r *http.Request) {
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	size, _ := strconv.Atoi(r.URL.Query().Get("page_size"))
	from, to := min(len(memories), (page-1)*size), min(len(memories), page*size)
	var next any
	if to < len(memories) {
		next = "https://elsewhere.example/v3/memories/?page=99"
	}
	json.NewEncoder(w).Encode(map[string]any{"count": len(memories), "next": next, "previous": nil, "results": memories[from:to]})
}

// What a hosted Mem0 holds is found, over pages, with its metadata.
//
// Proves SYN-2
func TestMem0(t *testing.T) {
	bare := false
	api := serve(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		expect.That(t, r.Method == "POST" && r.URL.Path == "/v3/memories/" && strings.Contains(string(body), `"user_id":"*"`), "asked %s %s %s", r.Method, r.URL, body)
		if bare {
			json.NewEncoder(w).Encode(memories)
			return
		}
		paged(w, r)
	})
	api.PageSize = 2
	p := pager(t)(hunt.Mem0(api))
	expect.List(t, all(t, p), memoryLines)
	_, _, err := p.Page(t.Context(), "x")
	expect.That(t, err != nil, "a cursor that is no page was taken")
	bare = true
	_, _, err = p.Page(t.Context(), "")
	expect.That(t, errors.Is(err, hunt.ErrTruncated), "a full list without pages: %v", err)
	api.PageSize = 50
	expect.List(t, all(t, pager(t)(hunt.Mem0(api))), memoryLines)
}

func TestMem0Server(t *testing.T) {
	api := serve(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		expect.Equal(t, r.URL.Path, "/memories", "asked", r.URL)
		var list []map[string]any
		for _, m := range memories {
			if u := q.Get("user_id"); u == "" || m["user_id"] == u {
				list = append(list, m)
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"results": list})
	})
	expect.List(t, all(t, pager(t)(hunt.Mem0Server(api))), memoryLines)
	by := []memproxy.Scope{{User: "bob"}, {User: "ann"}}
	got := all(t, pager(t)(hunt.Mem0Server(api, by...)))
	expect.That(t, len(got) == 7 && strings.HasPrefix(got[0], "bob"), "got %q", got)
	api.PageSize = 2
	_, _, err := pager(t)(hunt.Mem0Server(api, by...)).Page(t.Context(), "")
	expect.That(t, errors.Is(err, hunt.ErrTruncated), "as many as were asked for: %v", err)
	expect.Error(t, expect.Err(hunt.Mem0Server(api, memproxy.Scope{User: "ann", App: "x"})), "a scope that the server does not know was taken")
}

// Which Mem0 it is can be asked: the platform alone answers a ping, and whom it does not
// know learns nothing.
func TestMem0Kind(t *testing.T) {
	for status, want := range map[int]string{http.StatusOK: "platform", http.StatusNotFound: "server", http.StatusMethodNotAllowed: "server", http.StatusForbidden: ""} {
		api := serve(func(w http.ResponseWriter, r *http.Request) {
			expect.Equal(t, r.URL.Path, "/v1/ping/", "asked", r.URL)
			w.WriteHeader(status)
		})
		kind, err := hunt.Mem0Kind(t.Context(), api)
		expect.That(t, kind == want && (err == nil) == (want != "") && (want != "" || hunt.IsUnauthorized(err)), "%d: %q, %v", status, kind, err)
	}
}

// after answers with the elements that follow an id, at most limit of them.
func after(w http.ResponseWriter, r *http.Request, elements []map[string]any) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from := 0
	for i, e := range elements {
		if e["id"] == r.URL.Query().Get("after") {
			from = i + 1
		}
	}
	if out := elements[from:min(len(elements), from+limit)]; len(out) > 0 {
		json.NewEncoder(w).Encode(out)
		return
	}
	io.WriteString(w, "[]")
}

// What a Letta holds is found: blocks, shared and of nobody, and the archives of all agents.
//
// Proves SYN-2
func TestLetta(t *testing.T) {
	blocks := []map[string]any{
		{"id": "block-1", "label": "human", "value": "Ada", "description": "who she is", "metadata": map[string]any{"k": "v"}},
		{"id": "block-2", "label": "persona", "value": "", "description": nil}, {"id": "block-3", "value": "x"},
	}
	agents := []map[string]any{{"id": "agent-1", "memory": map[string]any{"blocks": blocks}}, {"id": "agent-2", "memory": nil}, {"id": "agent-3"}}
	passages := map[string][]map[string]any{
		"agent-1": {{"id": "passage-1", "text": "one"}, {"id": "passage-2", "text": "two"}, {"id": "passage-3", "text": "three"}},
		"agent-3": {{"id": "passage-4", "text": "four"}},
	}
	api := serve(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		switch {
		case r.URL.Path == "/v1/blocks/":
			after(w, r, blocks)
		case r.URL.Path == "/v1/agents/":
			after(w, r, agents)
		case len(parts) == 5 && parts[4] == "archival-memory":
			after(w, r, passages[parts[3]])
		default:
			t.Errorf("asked %s", r.URL)
		}
	})
	api.PageSize = 2
	p := pager(t)(hunt.Letta(api))
	got := all(t, p)
	expect.List(t, got, []string{
		" block block-1 value=Ada", " block block-1 metadata/k=v", " block block-1 description=who she is", " block block-2 value=", " block block-3 value=x",
		"agent-1 passage passage-1 text=one", "agent-1 passage passage-2 text=two", "agent-1 passage passage-3 text=three", "agent-3 passage passage-4 text=four",
	})
	for _, cursor := range []string{"x", `{"agent":""}`, `{"agent":"../x","in":true}`, `{"agent":"a","after":"b"}`} {
		_, _, err := p.Page(t.Context(), "1:"+cursor)
		expect.That(t, err != nil, "cursor %s was taken", cursor)
	}
}

// Busy and broken backends are asked again, later each time; refusals are not.
func TestRetries(t *testing.T) { synctest.Test(t, testRetries) }

func testRetries(t *testing.T) {
	var answers []int
	var slept []time.Duration
	var last time.Time
	retryAfter := ""
	api := serve(func(w http.ResponseWriter, r *http.Request) {
		slept, last = append(slept, time.Since(last)), time.Now()
		status := answers[0]
		answers = answers[1:]
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(status)
		io.WriteString(w, "[]")
	})
	second := time.Second
	for _, c := range []struct {
		answers []int
		after   string
		slept   []time.Duration
		ok      bool
	}{
		{[]int{200}, "", nil, true},
		{[]int{503, 500, 200}, "", []time.Duration{second / 2, second}, true},
		{[]int{429, 200}, "7", []time.Duration{7 * second}, true},
		{[]int{429, 200}, "99999", []time.Duration{60 * second}, true},
		{[]int{429, 200}, "-5", []time.Duration{second / 2}, true},
		{[]int{500, 500, 500, 500, 500, 200}, "", []time.Duration{second / 2, second, 2 * second, 4 * second}, false},
		{[]int{403, 200}, "", nil, false},
		{[]int{307, 200}, "", nil, false},
	} {
		answers, retryAfter, slept = c.answers, c.after, nil
		_, _, err := pager(t)(hunt.Letta(api)).Page(t.Context(), "")
		if (err == nil) != c.ok || !slices.Equal(slept[1:], c.slept) {
			t.Errorf("%v: slept %v, %v", c.answers, slept[1:], err)
		}
		expect.That(t, err == nil || !strings.Contains(err.Error(), "sesame"), "the error tells: %v", err)
	}
}

func TestBadBackends(t *testing.T) {
	const maxBody = 32 << 20
	body := ""
	api := serve(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
	for _, body = range []string{"", "x", "null", `{"results":null}`, `{}`, `"text"`, `[1]`, `[{"id":7}]`, "[" + strings.Repeat(" ", maxBody) + "]"} {
		for name, p := range map[string]struct {
			hunt.Pager
			cursor string
		}{
			"mem0":   {pager(t)(hunt.Mem0(api)), ""},
			"server": {pager(t)(hunt.Mem0Server(api)), ""},
			"letta":  {pager(t)(hunt.Letta(api)), ""},
			"agents": {pager(t)(hunt.Letta(api)), "1:"},
		} {
			if len(body) > maxBody && testing.Short() {
				continue // one goroutine reads 32 MiB
			}
			items, next, err := p.Page(t.Context(), p.cursor)
			expect.That(t, err != nil, "%s read %.20q as %v, %q", name, body, items, next)
		}
	}
	// A memory without its text is reported, and the others are read.
	body = `{"results":[{"id":"a"},{"memory":"b"},{"id":"c","memory":"c"}]}`
	items, _, err := pager(t)(hunt.Mem0(api)).Page(t.Context(), "")
	expect.That(t, err == nil && len(items) == 3 && items[0].Incomplete && items[1].Incomplete && !items[2].Incomplete, "%+v, %v", items, err)
	synctest.Test(t, func(t *testing.T) {
		silent := serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		_, _, err := pager(t)(hunt.Letta(silent)).Page(t.Context(), "")
		expect.That(t, errors.Is(err, context.DeadlineExceeded), "silent: %v", err)
	})
	for _, a := range []hunt.API{{}, {URL: "x://h"}, {URL: "http://u:p@h"}, {URL: "http://h?x=1"}} {
		expect.Error(t, expect.Err(hunt.Letta(a)), a, "was taken")
	}
}

// Metadata with too much in it is screened as it is written, not in part.
func TestMetadataIsScreenedWhole(t *testing.T) {
	const maxStrings, maxDepth = 256, 16
	body := ""
	api := serve(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
	many := make([]string, maxStrings+5)
	for i := range many {
		many[i] = fmt.Sprint("s", i)
	}
	raw := must.Get(json.Marshal(many))(t)
	deep := json.RawMessage(strings.Repeat("[", maxDepth+2) + `"evil"` + strings.Repeat("]", maxDepth+2))
	for _, m := range []json.RawMessage{raw, deep} {
		body = `{"results":[{"id":"a","memory":"b","metadata":` + string(m) + `}]}`
		items, _, err := pager(t)(hunt.Mem0(api)).Page(t.Context(), "")
		expect.That(t, err == nil && len(items) == 2 && items[1].Text == string(m) && items[1].Field == "metadata", "%d items, %v", len(items), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`[{"id":"block-1","value":"x","description":null,"metadata":{"a":1}}]`))
	f.Add([]byte(`{"next":"x","results":[{"id":"a","memory":"b","metadata":{"c":["d"]}}]}`))
	f.Add([]byte(`[{"id":"a","memory":null}]`))
	var body []byte
	api := serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	p, blocks := pager(f)(hunt.Mem0(api)), pager(f)(hunt.Letta(api))
	f.Fuzz(func(t *testing.T, raw []byte) {
		body = raw
		_, _, _ = blocks.Page(t.Context(), "")
		items, _, err := p.Page(t.Context(), "")
		if err != nil {
			return
		}
		var page struct{ Results []json.RawMessage }
		must.That(t, json.Unmarshal(raw, &page) != nil || len(items) >= len(page.Results), "%d items of %d memories", len(items), len(page.Results))
		for _, i := range items {
			must.That(t, i.ID != "" || i.Field != "memory" || i.Incomplete, "a memory without a name")
		}
	})
}
