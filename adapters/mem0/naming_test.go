package mem0_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-3, EDGE-13: ids are found by their form in every parameter, header and
// member. A member or parameter that looks like a name of something and is not in
// naming is removed, and the rest is sent unchanged. Other members pass.
func TestWhatHasNoRowIsFoundOrTakenOff(t *testing.T) {
	const id = "11111111-2222-4333-8444-555555555555"
	a := must.Get(mem0.New(mem0.Options{}))(t)
	for name, tc := range map[string]struct {
		method, path, query, body, header string
		found                             bool
		bare                              string // what is sent, if something is removed
	}{
		"a member with an id":              {method: "POST", path: "/v3/memories/add/", body: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}],"thread_id":"` + id + `"}`, found: true},
		"a member with a name":             {method: "POST", path: "/v3/memories/add/", body: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}],"owner_id":"bob"}`, bare: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}]}`},
		"a list of names":                  {method: "POST", path: "/v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann"},"user_ids":["bob"]}`, bare: `{"query":"tea","filters":{"user_id":"ann"}}`},
		"in an object":                     {method: "POST", path: "/v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann"},"ownerIds":{"a":["bob"]}}`, bare: `{"query":"tea","filters":{"user_id":"ann"}}`},
		"a parameter with a name":          {method: "GET", path: "/v1/memories/", query: "user_id=ann&owner_id=bob", bare: "user_id=ann"},
		"parameters with brackets":         {method: "GET", path: "/v1/memories/", query: "user_id=ann&owner_id[]=bob&x=%20y&thread%5Fid=" + id + ",carl", bare: "user_id=ann&x=%20y"},
		"the name of one's own tenant's":   {method: "POST", path: "/v3/memories/add/", body: `{"thread_id":"ann","user_id":"ann","trace_id":"t-1","messages":[{"role":"user","content":"tea"}]}`, bare: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}]}`},
		"a parameter with ids":             {method: "GET", path: "/v1/memories/", query: "user_id=ann&thread_ids=" + id + "," + id, bare: "user_id=ann"},
		"a parameter with an id":           {method: "GET", path: "/v1/memories/", query: "user_id=ann&of=" + id, found: true},
		"a header with an id":              {method: "GET", path: "/v1/memories/", query: "user_id=ann", header: id, found: true},
		"a name in metadata":               {method: "POST", path: "/v3/memories/add/", body: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}],"metadata":{"order_id":"bob"}}`},
		"a filter on metadata":             {method: "POST", path: "/v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann","order_id":"bob"}}`},
		"a word that ends alike":           {method: "POST", path: "/v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann"},"paid":"bob","PAID":"bob"}`},
		"the credential's project":         {method: "GET", path: "/v1/memories/", query: "user_id=ann&org_id=o&project_id=p"},
		"a number":                         {method: "POST", path: "/v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann"},"trace_id":7}`},
		"an owner in two spellings, alike": {method: "POST", path: "/v3/memories/add/", body: `{"user_id":"ann","userId":"ann","messages":[{"role":"user","content":"tea"}]}`},
	} {
		req := memproxy.Request{Method: tc.method, EscapedPath: tc.path, Path: tc.path, Query: tc.query, Header: memproxy.Header{}}
		if tc.header != "" {
			req.Header["X-Of-Tomorrow"] = []string{tc.header}
		}
		if tc.body != "" {
			req.Header["Content-Type"] = []string{"application/json"}
		}
		rt, ok := a.Route(req)
		if !ok {
			t.Fatalf("%s: no route", name)
		}
		op, err := a.Decode(rt, req, []byte(tc.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, query, err := a.Encode(rt, req, []byte(tc.body), op)
		if err != nil {
			t.Fatal(err)
		}
		want, was := tc.bare, tc.body
		if tc.body == "" {
			was, body = tc.query, []byte(query)
		} else if query != tc.query {
			t.Errorf("%s: the query became %s", name, query)
		}
		if want == "" {
			want = was
		}
		if string(body) != want || (len(op.Unclaimed) > 0) != (tc.bare != "") {
			t.Errorf("%s: %s goes, want %s; taken off: %q", name, body, want, op.Unclaimed)
		}
		found := slices.ContainsFunc(op.Refs, func(r memproxy.Ref) bool { return r.ID == id && r.Loose && r.Kind == memproxy.TargetExport })
		if found != tc.found {
			t.Errorf("%s: found is %v: %+v", name, found, op)
		}
	}
}
