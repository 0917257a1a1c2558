package embedded

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// FuzzServe: whatever arrives is answered, in JSON, without a panic or a 500,
// and what is stored can be read again.
func FuzzServe(f *testing.F) {
	table := must.Get(New(Options{}))(f)
	hosted, selfHosted := table.routes[true], table.routes[false]
	for i := range hosted {
		f.Add(uint(i), "x", `{"filters":{"user_id":"ann"}}`)
	}
	bodies := []string{
		`{"messages":[{"role":"user","content":"x"}],"user_id":"ann","infer":false,"metadata":{"created_at":"2","expiration_date":3,"role":{},"app_id":"z"}}`,
		`{"messages":[{"role":null,"content":{"type":"text"}},7],"filters":{"app_id":"ann"}}`,
		`{"query":"x","filters":{"user_id":"ann","AND":[{"OR":[{"n":{"gt":1}}]}],"NOT":[{"n":{"nin":[1]}}]},"threshold":0}`,
		`{"query":"x","filters":{"AND":[{"created_at":{"in":["2020-01-01",7]}},{"NOT":[{"metadata":{"a":{"contains":1}}}]},{"keywords":{"icontains":"X"}}]},"start_date":"2","end_date":"9","fields":["id"]}`,
		`{"filters":{"OR":[{"user_id":{"in":["ann"],"ne":null}},{"memory_ids":["x"]},{"categories":{"contains":1}}]},"page":1,"page_size":2}`,
		`{"memories":[{"memory_id":"x","text":"y"},{"memory_id":"x","metadata":null}]}`,
		`{"text":"y","metadata":{"app_id":5},"timestamp":1e300,"expiration_date":null}`,
		`{"enabled":true,"operation":"sample","limit":1e9}`,
		`[]`, `null`, `{`, "\xff\xfe{\x00}\x00",
	}
	for i, body := range bodies {
		for j := range hosted[:12] {
			f.Add(uint(i*12+j), "ann", body)
		}
		for j := range selfHosted {
			f.Add(uint(len(hosted)+j), "ann?user_id=ann&page=1&top_k=3", body)
		}
	}
	f.Fuzz(func(t *testing.T, row uint, arg, body string) {
		b := must.Get(New(Options{MaxMemories: 10}))(t)
		serve(t, b, "POST", "/memories", `{"messages":[{"role":"user","content":"seed"}],"user_id":"ann","infer":false,"metadata":{"n":1,"l":["a"]}}`)
		rows := slices.Concat(hosted, selfHosted)
		rt := rows[row%uint(len(rows))]
		path := ""
		for _, c := range bytes.Split([]byte(rt.pattern), []byte("{")) {
			_, rest, wild := bytes.Cut(c, []byte("}"))
			if wild {
				path += arg + string(rest)
			} else {
				path += string(c)
			}
		}
		serve(t, b, rt.method, path, body)
		serve(t, b, "GET", "/memories", "")
		serve(t, b, "POST", "/v3/memories/", `{"filters":{"NOT":{"user_id":"nobody"}},"show_expired":true}`)
		serve(t, b, "GET", "/v1/entities/", "")
		serve(t, b, "GET", "/v1/events/", "")
	})
}

func serve(t *testing.T, b *Backend, method, path, body string) {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	if err != nil {
		t.Skip()
	}
	r := httptest.NewRequest(method, "/", bytes.NewReader([]byte(body)))
	r.URL, r.RequestURI = u, path
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	if w.Code == http.StatusInternalServerError || w.Code < 200 || w.Code > 502 {
		t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if w.Code != http.StatusTemporaryRedirect && !json.Valid(w.Body.Bytes()) {
		t.Errorf("%s %s: %q", method, path, w.Body)
	}
}

// FuzzFilters: both grammars compile or refuse, and what compiles can be asked.
func FuzzFilters(f *testing.F) {
	for _, s := range []string{
		`{"user_id":"ann"}`, `{"user_id":"*","AND":[{"user_id":"bob"}]}`, `{"user_id":"a","n":{"gte":"2020-01-01"}}`,
		`{"user_id":"a","OR":[{"n":[1]},{"OR":[]}],"NOT":[{"l":{"contains":"a"}}]}`, `{"NOT":{"metadata":{"n":{"ne":1}}}}`,
		`{"expiration_date":"*","keywords":7,"memory_ids":{"in":["x"]}}`, `{"user_id":"a","AND":[{"n":{"eq":1}},{"n":{"gt":0}}]}`,
	} {
		f.Add(s)
	}
	m := &memory{id: "x", user: "a", metadata: map[string]any{"n": json.Number("1"), "l": []any{"a"}}, created: "2026-01-01T00:00:00+00:00", expires: cleared}
	m.say("some words")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parse([]byte(text))
		if err != nil {
			t.Skip()
		}
		if passes, err := hostedFilter(v); err == nil {
			passes(m)
		}
		if passes, refused := engineFilter(&call{}, member([]byte(`{"filters":`+text+`}`), "filters")); refused == nil {
			passes(m)
		}
	})
}
