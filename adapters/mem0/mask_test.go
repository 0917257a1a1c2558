package mem0_test

import (
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-13: where a read names an owner whose existence the caller must not
// learn, another name is sent, or the adapter reports that it cannot do so; other names
// are sent unchanged.
func TestNamesAreMasked(t *testing.T) {
	a := adapter(t)
	for _, tc := range []struct{ target, body, want string }{
		{"GET /memories?user_id=bob&top_k=3", "", "user_id=nobody&top_k=3"},
		{"GET /memories?user_id=b%6Fb", "", "user_id=nobody"},
		{"GET /memories?user_id=ann&run_id=bob", "", "user_id=ann&run_id=bob"},
		{"GET /v1/memories/?filters%5Buser_id%5D=bob", "", "cannot"},
		{"POST /search", `{"query":"q","user_id":"bob"}`, `{"query":"q","user_id":"nobody"}`},
		{"POST /search", `{"query":"bob","filters":{"user_id":"b\u006fb"}}`, `{"query":"bob","filters":{"user_id":"nobody"}}`},
		{"POST /v3/memories/search/", `{"query":"q","filters":{"OR":[{"user_id":{"in":["ann","bob"]}},{"NOT":{"user_id":"bob"}},{"agent_id":"bob"}]}}`,
			`{"query":"q","filters":{"OR":[{"user_id":{"in":["ann","nobody"]}},{"NOT":{"user_id":"nobody"}},{"agent_id":"bob"}]}}`},
		{"POST /v3/memories/", `{"filters":{"NOT":[{"user_id":"bob"}]}}`, `{"filters":{"NOT":[{"user_id":"nobody"}]}}`},
		{"POST /v3/memories/", `{"filters":{"user_id":{"ne":"bob"}}}`, `{"filters":{"user_id":{"ne":"nobody"}}}`},
		{"POST /v2/memories/", `{"filters":{"AND":[{"user_id":{"nin":["ann","bob"]}}]}}`, `{"filters":{"AND":[{"user_id":{"nin":["ann","nobody"]}}]}}`},
		{`GET /v1/memories/?metadata={"user_id":"bob"}`, "", "cannot"},
		{"GET /v1/memories/user/bob/", "", "cannot"},
	} {
		rt, req := routed(t, a, tc.target)
		op := decode(t, a, tc.target, tc.body)
		if !a.Masks(rt, op) {
			expect.Equal(t, tc.want, "cannot", tc.target, tc.body, "cannot be masked")
			continue
		}
		op.Masked = map[string]string{"user:bob": "nobody"}
		body, query, err := a.Encode(rt, req, []byte(tc.body), op)
		must.Do(t, err)
		expect.Equal(t, string(body)+query, tc.want, tc.target, tc.body, "is sent as")
	}
}

// Proves EDGE-13: an id of another's object is replaced wherever it may be a reference,
// alone or in a list of several; what is stored as text and the names of owners are not.
func TestHiddenIDsAreReplaced(t *testing.T) {
	a := adapter(t)
	const id, other = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
	for _, tc := range []struct{ target, body, want string }{
		{"GET /v1/memories/?user_id=" + id + "&event_id=" + id, "", "user_id=" + id + "&event_id=new"},
		{"GET /v1/memories/?user_id=ann&ids=" + other + "%2C" + id, "", "user_id=ann&ids=" + other + "%2Cnew"},
		{"POST /v3/memories/search/", `{"query":"` + id + `","filters":{"AND":[{"user_id":"` + id + `"},{"memory_ids":["` + id + `","` + other + `"]}]}}`,
			`{"query":"` + id + `","filters":{"AND":[{"user_id":"` + id + `"},{"memory_ids":["new","` + other + `"]}]}}`},
		{"POST /v3/memories/add/", `{"messages":["` + id + `"],"user_id":"ann","id":"` + id + `","metadata":{"ref":"` + id + `"},"categories":["` + id + `"]}`,
			`{"messages":["` + id + `"],"user_id":"ann","id":"new","metadata":{"ref":"` + id + `"},"categories":["` + id + `"]}`},
		{"POST /v3/memories/add/", `{"messages":["tea"],"user_id":"ann","threadIds":["x","` + id + `"],"linked":"` + id + `,` + other + `"}`,
			`{"messages":["tea"],"user_id":"ann","linked":"new,` + other + `"}`},
	} {
		rt, req := routed(t, a, tc.target)
		op := decode(t, a, tc.target, tc.body)
		op.Hidden = map[string]string{id: "new"}
		body, query, err := a.Encode(rt, req, []byte(tc.body), op)
		must.Do(t, err)
		expect.Equal(t, string(body)+query, tc.want, tc.target, tc.body, "is sent as")
	}
}
